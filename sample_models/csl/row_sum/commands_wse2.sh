#!/usr/bin/env bash
set -e
cslc --arch=wse2 ./layout.csl --fabric-dims=13,6 --fabric-offsets=4,1 \
  --params=width:6,height:4 -o out --memcpy --channels 1
cs_python run.py --name out
