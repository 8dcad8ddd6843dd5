# The front door: what a person or CI runs is a target here. `make help` lists them.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Found, not listed: the folders of go.work's modules, and those of them whose programs ship.
PREFIX  := github.com/slotwise/slotwise
MODULES  = $(patsubst $(PREFIX)/%,./%,$(shell go list -m))
SHIPPED  = $(filter ./services/% ./ops,$(MODULES))

VERSION  = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 30s
TOOLS    := bin/golangci-lint bin/nats bin/nats-server

.PHONY: help run test test-pooler test-images check lint standalone tidied build tools tidy fmt bench fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: ## start everything on this machine, Ctrl-C stops it; FRESH=1 begins with no data
	@go build -o bin/stack ./e2e/cmd/stack
	@exec bin/stack

test: ## run every test of every module with -race, on a PostgreSQL of its own
	@go build -o bin/testdb ./testkit/cmd/testdb
# -count=1: the tests start binaries and read files that go's test cache does not see.
	@CGO_ENABLED=1 exec bin/testdb -- go test -race -count=1 -timeout 8m work

# What talks to PostgreSQL or NATS without an end-to-end stack around it.
STORES = ./testkit/dbtest/... ./testkit/pkgtest/... ./services/booking/internal/... ./services/relay/... ./services/notifier/internal/... ./services/scheduler/...

# How statements are sent behind the pooler: as services do by themselves, and the two ways that
# tell pgx nothing about types.
POOLER_MODES ?= cache_describe exec simple_protocol

test-pooler: ## run the services' tests behind PgBouncer, in each way that statements may be sent
	@go build -o bin/testdb ./testkit/cmd/testdb
	@for mode in $(POOLER_MODES); do echo "TEST_EXEC_MODE=$$mode"; \
		TEST_POOLER=1 TEST_EXEC_MODE=$$mode bin/testdb -- go test -race -count=1 $(STORES); done

# Tags of the images that test-images makes.
TEST_POSTGRES_IMAGE ?= slotwise-test/postgres:local
TEST_NATS_IMAGE     ?= slotwise-test/nats-server:local

test-images: bin/nats-server ## make images of what is installed and run the store and relay tests in containers
	@go build -o bin/testdb ./testkit/cmd/testdb
# testdb installs PostgreSQL where there is none.
	@env -u TEST_DATABASE_URL bin/testdb -- testkit/images/postgres.sh $(TEST_POSTGRES_IMAGE)
	@testkit/images/nats-server.sh bin/nats-server $(TEST_NATS_IMAGE)
	@env -u TEST_DATABASE_URL TEST_POSTGRES_IMAGE=$(TEST_POSTGRES_IMAGE) TEST_NATS_IMAGE=$(TEST_NATS_IMAGE) bin/testdb -- \
		go test -race -count=1 ./testkit/dbtest/... ./testkit/bustest/... ./services/booking/internal/store/... ./services/relay/...

check: lint standalone tidied ## lint, vet, the rules of e2e/rules, and each module by itself
	go vet work
	go test -count=1 ./e2e/rules/...

lint: bin/golangci-lint ## lint all modules and their formatting, as released and as rehearsed
	bin/golangci-lint run $(addsuffix /...,$(MODULES))
	bin/golangci-lint run --build-tags rehearsal $(addsuffix /...,$(MODULES))

standalone: ## build each module as it ships, without the workspace
	@status=0; for dir in $(MODULES); do \
		GOWORK=off CGO_ENABLED=0 go -C "$$dir" build -o /dev/null ./... || { echo "$$dir: see above"; status=1; }; \
	done; exit $$status

tidied: ## fail when `make tidy` would change a go.mod or go.sum
	@status=0; for dir in $(MODULES) tools; do \
		GOWORK=off go -C "$$dir" mod tidy -diff || { echo "$$dir: run make tidy"; status=1; }; \
	done; exit $$status

build: ## build the programs that ship into bin/
	@for dir in $(SHIPPED); do \
		GOWORK=off CGO_ENABLED=0 go -C "$$dir" build -trimpath -ldflags '-s -w -X $(PREFIX)/pkg/config.Version=$(VERSION)' -o '$(CURDIR)/bin/' ./cmd/...; \
	done

tools: $(TOOLS) ## build the pinned golangci-lint, nats and nats-server into bin/

bin/golangci-lint: package = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/nats:          package = github.com/nats-io/natscli/nats
bin/nats-server:   package = github.com/nats-io/nats-server/v2
$(TOOLS): tools/go.mod
	GOWORK=off CGO_ENABLED=0 go -C tools build -trimpath -ldflags '-s -w' -o ../bin/ $(package)
	@touch $@

# The order matters: sync raises go.mod files and adds no go.sum lines, tidy does.
tidy: ## bring go.mod and go.sum of all modules in line with the code and with each other
	go work sync
	@for dir in $(MODULES) tools; do GOWORK=off go -C "$$dir" mod tidy; done

fmt: bin/golangci-lint ## format all Go files
	bin/golangci-lint fmt $(MODULES)

bench: ## measure: the figures of docs/benchmarks.md
	@go build -o bin/testdb ./testkit/cmd/testdb
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./e2e/bench/
	bin/testdb -durable go test -run '^$$' -bench Send -benchtime 1x -timeout 10m ./services/notifier/internal/send/
	bin/testdb -durable go test -run '^$$' -bench 'Relay|Claim' -benchtime 1x -timeout 60m ./services/relay/cmd/relay/

fuzz: ## run every fuzz target for FUZZTIME (30s) each
	@git grep --untracked -oE '^func Fuzz\w+' -- '*_test.go' | while IFS=: read -r file func; do \
		go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
	done

clean: ## remove what was built; data in .slotwise stays
	rm -rf bin
