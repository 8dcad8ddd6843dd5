// Package rules holds the rules of this repository that a program can check, as tests.
//
// A rule is a function from the files of the repository to what breaks it, one line a place. The
// table in rules_test.go gives each rule, beside the name that a failure shows, the smallest tree
// that breaks it: every run proves that the rule holds here and that it would notice.
//
// What a linter can say while typing is in .golangci.yml instead; import directions are in both,
// because here they cover every build tag.
package rules
