# Targets of the repository. `make test` and `make demo` do their own set-up; see scripts/setup.

CARGO ?= cargo
export RUST_BACKTRACE ?= 1

.DEFAULT_GOAL := help
PREFIX = /usr/local
DESTDIR =

.PHONY: help build install book package wheel release test test-all lint disasters fuzz fuzz-min fuzz-campaign demo bench clean

help:
	@echo 'make build   frostline, its agent and frostline-repro, in target/release'
	@echo 'make install the same where programs are found; PREFIX=/usr/local DESTDIR='
	@echo 'make package  packages for Debian and others, an image, checksums, in target/packages'
	@echo 'make book    the documentation as a site, in target/book/html'
	@echo 'make wheel   the Python package, in target/wheels'
	@echo 'make release  all of these and the sources, of a commit, in target/release-VERSION'
	@echo 'make test    every check: format, lints, documentation, tidiness, tests'
	@echo 'make test-all  the same, and 300 kills of a running frostline'
	@echo 'make fuzz    searches for input that a reader does not survive; SECONDS=60 TARGETS="trace journal"'
	@echo 'make disasters  the daemon in worlds where everything goes wrong; SECONDS=60'
	@echo 'make demo    tiers a redis-server, records it, compares placements of its memory'
	@echo 'make bench   benchmarks, beside their peers where there are any'
	@echo 'make clean   removes everything built'

build:
	@scripts/setup build
	$(CARGO) build --release

# Programs, the agent's library, man pages, completions, and a unit that has the prefix in it.
install:
	@scripts/install '$(PREFIX)' '$(DESTDIR)'

wheel:
	@scripts/setup build
	@scripts/python wheel

book:
	@scripts/book

package: build
	@scripts/package all

release:
	@scripts/release

# Warnings are errors through the flags of clippy and rustdoc, not through RUSTFLAGS, which would
# have everything built a second time.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) xtask tidy
	$(CARGO) clippy --workspace --all-targets --features frostline-fuzz/libfuzzer --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --quiet
	scripts/check-crates

test:
	@scripts/setup test
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory fuzz SECONDS=5
	@$(MAKE) --no-print-directory disasters SECONDS=20
	@scripts/python test
	@PROFILE=debug packaging/test
	@PROFILE=debug packaging/test-chart
	@scripts/book
	@scripts/run-tests

# The whole workspace is named so that nothing is built a second time with other features.
test-all: test
	FROSTLINE_KILLS=300 scripts/run-tests --test safety kill

# Of a processor, for each target; TARGETS names some of them. A campaign adds to what its table has.
SECONDS = 60
MINUTES = 30
TARGETS =

fuzz:
	@scripts/setup fuzz
	$(CARGO) xtask fuzz --seconds $(SECONDS) --targets '$(TARGETS)'

fuzz-min:
	@scripts/setup fuzz
	$(CARGO) xtask fuzz-min --targets '$(TARGETS)'

disasters:
	$(CARGO) xtask disasters --seconds $(SECONDS)

fuzz-campaign:
	@scripts/setup fuzz
	$(CARGO) xtask fuzz --seconds $$((60 * $(MINUTES))) --targets '$(TARGETS)' --summary fuzz/campaign.md

demo:
	@scripts/setup demo
	@demo/run

bench:
	@scripts/setup bench
	$(CARGO) bench --workspace

clean:
	$(CARGO) clean
