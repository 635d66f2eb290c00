#!/usr/bin/env bash
# The federation by hand of the README, from three new homes to their end. Run it in an empty folder, with `fednode` and the
# `python` that it is installed in on the PATH:
#
#     bash PATH/TO/examples/three_homes.sh
#
# It leaves the homes, confusion.png and samples.png in that folder, and no process.
set -euo pipefail
examples="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

a() { FEDNODE_HOME="$PWD/home-a" fednode "$@"; }
b() { FEDNODE_HOME="$PWD/home-b" fednode "$@"; }
c() { FEDNODE_HOME="$PWD/home-c" fednode "$@"; }

stop_all() {                             # only if a command failed: at the end all three have stopped
    for node in a b c; do $node stop >/dev/null 2>&1 || true; done
}
trap stop_all EXIT

python "$examples/write_digits.py" digits # images to play with: folders, and a MedMNIST-style npz

a init --name a                          # makes the home and the key, and prints the peer id
b init --name b
c init --name c

for home in home-a home-b home-c; do     # what all nodes must agree on
cat > $home/peers.yaml <<'YAML'
contract:
  federation: digits
  labels: [0, 1, 2, 3, 4]
  image: {size: 8, channels: 1}
  quorum: 2
peers: []
YAML
done

a peer add b "$(b id)" 127.0.0.1:7702    # on three machines, ids travel by telephone
a peer add c "$(c id)" 127.0.0.1:7703
b peer add a "$(a id)" 127.0.0.1:7701
b peer add c "$(c id)" 127.0.0.1:7703
c peer add a "$(a id)" 127.0.0.1:7701
c peer add b "$(b id)" 127.0.0.1:7702

a start --data digits --labels 0,1 --listen 127.0.0.1:7701 --detach
b start --data folder:digits/train --labels 2,3 --listen 127.0.0.1:7702 --detach
c start --data npz:digits/digits.npz --labels 4 --listen 127.0.0.1:7703 --detach

until a status --json | grep -q '"phase": "ready"'; do sleep 1; done
a status
a predict digits/test/3/*.png
a evaluate --data digits --labels 0,1,2,3,4 --confusion confusion.png
a samples samples.png                    # real images of a beside synthetic ones of all labels

b withdraw 3 --yes                       # b takes back one label ...
c leave --yes                            # ... and c takes itself back, everywhere
until a status --json | grep -q '"phase": "ready"'; do sleep 1; done
a status                                 # what was erased, and who has confirmed it
a predict digits/test/2/*.png

a stop
b stop
c stop
