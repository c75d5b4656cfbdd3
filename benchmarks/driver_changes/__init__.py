"""What the exact gate, the ordinary gate on emulated boards, and goodput alone say of real changes of NIC drivers."""
