//! Runs a program under the Valgrind recorder and writes its trace.
