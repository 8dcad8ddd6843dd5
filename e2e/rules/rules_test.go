package rules

import (
	"slices"
	"strings"
	"testing"
)

var rules = []struct {
	name   string
	check  func(tree) []string
	broken tree     // the smallest tree that breaks the rule in each way
	want   []string // what the rule says of it
}{
	{
		name:  "every package has one package comment",
		check: packageComments,
		broken: tree{
			"a/a.go": "package a", "a/a_test.go": "// Package a is tested.\npackage a",
			"b/b.go": "// Package b is b.\npackage b", "b/c.go": "// Package b is c.\npackage b",
			"d/d.go": "// D is a package.\npackage d",
			"e/e.go": "// Package e is fine.\npackage e", "e/e_test.go": "package e_test",
			"cmd/f/main.go": "// Command f is fine.\npackage main",
			"g/g_test.go":   "package g",
		},
		want: []string{
			"a: package a has 0 package comments, wanted 1",
			"b: package b has 2 package comments, wanted 1",
			`d/d.go:1: the comment of package d starts with "D", wanted "Package d"`,
			"g: package g has 0 package comments, wanted 1",
		},
	},
	{
		name:  "imports point one way",
		check: importDirections,
		broken: tree{
			"pkg/bus/bus.go":                           importing("testkit/dbtest", "services/relay/x"),
			"pkg/bus/bus_test.go":                      importing("testkit/dbtest"),
			"services/relay/claim.go":                  importing("pkg/bus", "services/relay/x", "services/booking/x", "testkit/dbtest"),
			"services/relay/claim_test.go":             importing("testkit/dbtest"),
			"testkit/seed/seed.go":                     importing("pkg/bus", "e2e/stack"),
			"e2e/stack/stack.go":                       importing("testkit/dbtest", "services/relay/x"),
			"ops/cmd/slotwise/main.go":                 importing("pkg/bus", "testkit/dbtest"),
			"pkg/event/event.go":                       importing("pkg/id", "pkg/bus"),
			"pkg/id/id.go":                             `package id; import "github.com/google/uuid"`,
			"services/booking/internal/booking/a.go":   `package booking; import ("time"; "github.com/slotwise/slotwise/pkg/id")`,
			"services/booking/internal/booking/b.go":   "//go:build rehearsal\n\npackage booking; import \"github.com/google/uuid\"",
			"services/booking/internal/app/app.go":     importing("services/booking/internal/booking", "services/booking/internal/store"),
			"services/booking/internal/api/api.go":     `package api; import "github.com/jackc/pgx/v5"`,
			"services/booking/internal/store/store.go": importing("pkg/bus", "services/booking/internal/api"),
			"services/relay/internal/x/assert_test.go": `package x; import "github.com/stretchr/testify/require"`,
			"services/relay/internal/x/server.go":      `package x; import "github.com/nats-io/nats-server/v2/server"`,
		},
		want: []string{
			"e2e/stack/stack.go:1: e2e must not import services/relay/x",
			"ops/cmd/slotwise/main.go:1: ops must not import testkit/dbtest",
			"pkg/bus/bus.go:1: pkg must not import services/relay/x",
			"pkg/bus/bus.go:1: pkg must not import testkit/dbtest",
			"pkg/bus/bus_test.go:1: pkg must not import testkit/dbtest",
			"pkg/event/event.go:1: pkg/event must not import pkg/bus",
			"pkg/id/id.go:1: pkg/id must not import github.com/google/uuid",
			"services/booking/internal/api/api.go:1: services/booking/internal/api must not import github.com/jackc/pgx/v5",
			"services/booking/internal/app/app.go:1: services/booking/internal/app must not import services/booking/internal/store",
			"services/booking/internal/booking/a.go:1: services/booking/internal/booking must not import pkg/id",
			"services/booking/internal/booking/b.go:3: services/booking/internal/booking must not import github.com/google/uuid",
			"services/booking/internal/store/store.go:1: services/booking/internal/store must not import services/booking/internal/api",
			"services/relay/claim.go:1: services/relay must not import services/booking/x",
			"services/relay/claim.go:1: services/relay must not import testkit/dbtest",
			"services/relay/internal/x/assert_test.go:1: nobody imports github.com/stretchr/testify/require",
			"services/relay/internal/x/server.go:1: services/relay must not import github.com/nats-io/nats-server/v2/server",
			"testkit/seed/seed.go:1: testkit must not import e2e/stack",
		},
	},
	{
		name:  "all modules are in go.work and say the same go version",
		check: workspace,
		broken: tree{
			"go.work":         "go 1.26.0\n\nuse (\n\t./a\n\t./gone\n)\n",
			"a/go.mod":        "module a\n\ngo 1.26\n",
			"b/go.mod":        "module b\n\ngo 1.26.0\n",
			"tools/go.mod":    "module tools\n\ngo 1.26.0\n",
			"b/testdata/x.go": "package x",
		},
		want: []string{
			`a/go.mod: says "go 1.26", go.work "go 1.26.0"`,
			"b/go.mod: is not in go.work",
			"go.work: uses gone, which has no go.mod",
		},
	},
	{
		name:  "go versions have three parts",
		check: workspace,
		broken: tree{
			"go.work":  "go 1.26\n\nuse ./a\n",
			"a/go.mod": "module a\n\ngo 1.26\n",
		},
		want: []string{`go.work: "go 1.26" has not three parts`},
	},
	{
		name:  "a dependency has one version in all modules",
		check: oneVersion,
		broken: tree{
			"a/go.mod":     "require example.com/x v1.0.0\n\nreplace example.com/y => ../y\n",
			"b/go.mod":     "require (\n\texample.com/x v1.1.0 // indirect\n\texample.com/z v1.0.0\n)\n",
			"tools/go.mod": "require example.com/z v2.0.0\n",
		},
		want: []string{"b/go.mod: has example.com/x v1.1.0, a/go.mod v1.0.0: make tidy"},
	},
	{
		name:  "each direct dependency is accounted for",
		check: accountedFor,
		broken: tree{
			"docs/decisions/dependencies.md": "| example.com/x | needed |\n",
			"a/go.mod":                       "require (\n\texample.com/x v1.0.0\n\texample.com/y v1.0.0\n\texample.com/z v1.0.0 // indirect\n)\nrequire " + module + "pkg v0.0.0\n",
		},
		want: []string{"a/go.mod: example.com/y is not in docs/decisions/dependencies.md"},
	},
	{
		name:  "migrations are numbered without gaps",
		check: migrations,
		broken: tree{
			"services/a/migrations/0001_start.sql": "", "services/a/migrations/0003_more.sql": "",
			"services/b/migrations/0001_start.sql": "", "services/b/migrations/0001_again.sql": "",
			"services/c/migrations/1_start.sql": "", "services/c/migrations/migrations.go": "",
			"services/d/migrations/0001_Big-Name.sql": "",
		},
		want: []string{
			"services/a/migrations/0003_more.sql: is number 2 of its folder, in order",
			"services/b/migrations/0001_start.sql: is number 2 of its folder, in order",
			"services/c/migrations/1_start.sql: is not named NNNN_name.sql",
			"services/d/migrations/0001_Big-Name.sql: is not named NNNN_name.sql",
		},
	},
	{
		name:  "links between documents lead somewhere",
		check: links,
		broken: tree{
			"README.md": "# Slotwise: `it`\n[a](docs/a.md) [b](docs/b.md) [c](docs/) [d](#slotwise-it) [e](#nowhere) [f](https://example.com/x)\n" +
				"```\n[g](code.md)\n```\n`[h](code.md)` [i](docs/a.md#part-two-1 \"title\") [j](docs/a.md#part-three)\n\n[k]: docs/k.md\n",
			"docs/a.md": "# A\n## Part two\n## Part two\n[top](../README.md) [out](../../x.md)\n",
		},
		want: []string{
			"README.md:2: docs/b.md leads nowhere",
			"README.md:2: #nowhere leads nowhere",
			"README.md:6: docs/a.md#part-three leads nowhere",
			"README.md:8: docs/k.md leads nowhere",
			"docs/a.md:4: ../../x.md leads nowhere",
		},
	},
	{
		name:  "a file is short enough to be one room with one name",
		check: shortFiles,
		broken: tree{
			"a/fine.go":     strings.Repeat("\n", maxLines),
			"a/big.go":      strings.Repeat("\n", maxLines+1),
			"a/big_test.go": strings.Repeat("\n", maxLines+1),
		},
		want: []string{"a/big.go: 451 lines, at most 450"},
	},
	{
		name:  "files name no registry and no machine's folder",
		check: places,
		broken: tree{
			"a.md":  "fine: work/x, https://example.com/work/\nat /ro" + "ot/x\n/wo" + "rk/y",
			"b.yml": "image: x\nurl: https://pro" + "xy.golang.org/x",
			"c.sh":  "cd /ho" + "me/somebody/x; ls /t" + "mp/x",
			"d.bin": "\x00 /ro" + "ot/x",
		},
		want: []string{
			"a.md:2: /ro" + "ot/",
			"a.md:3: /wo" + "rk/",
			"b.yml:2: pro" + "xy.golang.org",
			"c.sh:1: /ho" + "me/",
			"c.sh:1: /t" + "mp/",
		},
	},
	{
		name:  "nothing is put off",
		check: putOff,
		broken: tree{
			"a.go":  "package a\n\nvar _ = context.TO" + "DO()\n\n// TO" + "DO: later\n",
			"b.sql": "-- FIX" + "ME\n",
			"c.md":  "no TO" + "DO\n",
		},
		want: []string{"a.go:5: TO" + "DO", "b.sql:1: FIX" + "ME"},
	},
	{
		name:  "no test is skipped",
		check: noSkips,
		broken: tree{
			"a_test.go": "package a\n\nfunc TestX(tb *testing.T) {\n\ttb.Skip(1)\n\ttb.Helper()\n\ttb.SkipNow()\n}\n",
			"b.go":      "package b\n\nimport \"testing\"\n\nfunc need(tb testing.TB) { tb.Skipf(\"no\") }\n",
			"c.go":      "package c\n\nfunc next(d *decoder) { d.Skip() }\n",
		},
		want: []string{"a_test.go:4: Skip", "a_test.go:6: SkipNow", "b.go:5: Skipf"},
	},
}

// importing returns a Go file that imports packages of this repository.
func importing(packages ...string) string {
	file := "package x; import ("
	for _, p := range packages {
		file += `"` + module + p + `";`
	}
	return file + ")"
}

func TestRules(t *testing.T) {
	repo := repository(t)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, finding := range rule.check(repo) {
				t.Error(finding)
			}
			if got := rule.check(rule.broken); !slices.Equal(got, rule.want) {
				t.Errorf("of its broken tree the rule says\n\t%s\nwanted\n\t%s",
					strings.Join(got, "\n\t"), strings.Join(rule.want, "\n\t"))
			}
		})
	}
}
