# Functions for a job that is a shell script, sourced before it.

# section NAME COMMAND ARGUMENTS...: runs the command, which may be a function, and frames what it
# prints so that the host finds it by name, with its exit code.
section() {
    _name=$1
    shift
    echo ">>> $_name"
    _code=0
    ("$@") 2>&1 || _code=$?
    printf '\n<<< %s %s\n' "$_name" "$_code"
}

# wait_for SECONDS COMMAND ARGUMENTS...: runs the command every second until it succeeds, so often at most.
wait_for() {
    _left=$1
    shift
    until "$@"; do
        [ "$_left" -gt 0 ] || return 1
        _left=$((_left - 1))
        sleep 1
    done
}
