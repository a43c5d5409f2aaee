import sys

import dibs

with dibs.open(sys.argv[1], agent=sys.argv[2]) as desk:
    for claim in desk.work(lease="1h"):
        with claim:
            claim.result = 1 + sum(value for value in claim.inputs.values() if isinstance(value, int))
