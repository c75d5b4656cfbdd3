import math, random, sys
from concurrent.futures import ProcessPoolExecutor
from statistics import median, fmean
from pytest_pinet.judge.bisection import *
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.turns import Boot, Side, judge_change, side
from pytest_pinet.judge.spread import UNKNOWN, Noise

COMMITS=64; DROP=0.02; A_EVERY=6; MOST=16
def d_change(turns):
    a,b=([math.log(t.levels[0]) for t in turns if t.side is s] for s in Side)
    return median(b)-median(a)
def one(args):
    seed,noise,lottery,cal,layout=args
    r=random.Random(seed)
    names=[f"c{i:02}" for i in range(COMMITS)]
    culprit=r.choice(names)
    off={n:layout*r.gauss(0,1) for n in [GOOD,*names]}
    def boot(c):
        v=math.log(1-DROP) if c!=GOOD and c>=culprit else 0.0
        v+=noise*r.gauss(0,1)+off[c]
        if r.random()<lottery: v+=math.log(.85)
        return v
    def gate(a,b):
        turns=[]
        while True:
            s=side(len(turns)); turns.append(Boot(s,len(turns),(math.exp(boot(a if s is Side.A else b))*1e9,)))
            d=judge_change(turns,0.01,cal,most_boots=MOST)
            if d.result is not Relation.GO_ON: return d.result,turns
    bi=Bisection({n:set(names[:i+1]) for i,n in enumerate(names)},names[-1])
    res,turns=gate(GOOD,names[-1])
    for t in turns: bi.add(GOOD if t.side is Side.A else names[-1],math.log(t.levels[0]/1e9))
    ends=len(turns)
    if res is not Relation.SLOWER and (res is not Relation.INCONCLUSIVE or d_change(turns)>-.01): return ("ends",ends,ends,0)
    since=0
    while not bi.is_certain:
        m=bi.next()
        if m is None or bi.boots>400: return ("undecided",bi.boots,ends,0)
        since+=1
        if since%A_EVERY==0: bi.add(GOOD,boot(GOOD))
        bi.add(m,boot(m))
    b=bi.best()[0]
    k=names.index(b[0])
    res,turns=gate(names[k-1] if k else GOOD,names[k])
    return ("right" if b==[culprit] else "wrong",bi.boots,ends,len(turns))
def known(noise): return Noise(0.0,noise,19,19) 
if __name__=="__main__":
    n=int(sys.argv[1]); first=int(sys.argv[2])
    import time
    print(Noise.__doc__)
    with ProcessPoolExecutor(2) as p:
        for noise,lot,lay in ((.005,0,0),(.01,0,0),(.015,0,0),(.005,.04,0),(.01,.04,0),(.005,0,.002),(.01,0,.003)):
          for nm,cal in (("unknown",UNKNOWN),):
            t=time.time()
            f=list(p.map(one,[(first+i,noise,lot,cal,lay) for i in range(n)],chunksize=5))
            c={k:sum(x[0]==k for x in f) for k in("right","wrong","undecided","ends")}
            bis=[x for x in f if x[0]!="ends"]
            print(noise,lot,lay,nm,c,"boots %.1f ends %.1f confirm %.1f"%(fmean(x[1] for x in f),fmean(x[2] for x in f),fmean([x[3] for x in bis] or [0])),"%.0fs"%(time.time()-t),flush=True)
