# Sourced by bash: puts the programs of the stand-in on PATH.
STANDIN_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export STANDIN_HOME PATH=$STANDIN_HOME/bin:$PATH
