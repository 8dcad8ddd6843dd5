package rules

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
)

var migrationName = regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.sql$`)

// migrations: the files of a migrations folder are named NNNN_name.sql and numbered from 0001
// without gap or repeat, so that their order is the order they ran in everywhere.
func migrations(files tree) []string {
	var found []string
	count := map[string]int{}
	for _, name := range files.paths("*.sql") {
		dir := path.Dir(name)
		if path.Base(dir) != "migrations" {
			continue
		}
		match := migrationName.FindStringSubmatch(path.Base(name))
		if match == nil {
			found = append(found, name+": is not named NNNN_name.sql")
			continue
		}
		count[dir]++
		if n, err := strconv.Atoi(match[1]); err != nil || n != count[dir] {
			found = append(found, fmt.Sprintf("%s: is number %d of its folder, in order", name, count[dir]))
		}
	}
	return found
}
