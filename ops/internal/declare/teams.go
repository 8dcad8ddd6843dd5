package declare

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/slotwise/slotwise/pkg/topology"
	"go.yaml.in/yaml/v3"
)

// parseTeams reads teams.yaml and returns the consumers of its teams, or every mistake in it.
func parseTeams(text []byte) ([]topology.Consumer, error) {
	var file struct {
		Teams []topology.Team `yaml:"teams"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not of this form: %w", err)
	}
	var all []topology.Consumer
	var mistakes []error
	seen := map[string]bool{}
	for _, t := range file.Teams {
		mistakes = append(mistakes, t.Check())
		if seen[t.Name] {
			mistakes = append(mistakes, fmt.Errorf("team %s is declared twice", t.Name))
		}
		seen[t.Name] = true
		all = append(all, t.Consumer())
	}
	return all, errors.Join(mistakes...)
}
