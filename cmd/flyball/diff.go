package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/internal/objectdiff"
	"flyball.dev/record"
)

// diffCommand returns the command "flyball diff".
func diffCommand() *cobra.Command {
	var output string
	var kinds []string
	cmd := &cobra.Command{
		Use:   "diff FILE[@TIME] [FILE]@TIME",
		Short: "Compare two moments of recorded clusters",
		Long: `Compare two moments of recorded clusters, and print which objects were created, changed and deleted
between them, with the values of the fields. Resource versions and managed fields are not compared.

A time is written as flyball replay --at takes it; without @ it is the end of the recording. The
second file may be left out if it is the first one.

The exit code is 1 if there are differences, as of diff, and 2 after an error.`,
		Example: `  flyball diff incident.recording@14:02 @14:05
  flyball diff monday.recording friday.recording --kinds deployments.apps
  flyball diff incident.recording@+0s incident.recording -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want two moments, not %d arguments: see flyball diff --help", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			different, err := diffMoments(cmd.OutOrStdout(), args[0], args[1], kinds, output)
			switch {
			case err != nil:
				fmt.Fprintln(cmd.ErrOrStderr(), terminal.Error(cmd.ErrOrStderr(), "flyball: "+err.Error()))
				return exitCode(2)
			case different:
				return exitCode(1)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the output format: json; by default text")
	cmd.Flags().StringSliceVar(&kinds, "kinds", nil, "the resources to compare, such as pods,deployments.apps (default all)")
	completeValues(cmd, "output", "json")
	refuseEmpty(cmd.Flags(), "kinds")
	return cmd
}

// diffMoments prints the differences of two moments, and reports whether there are any.
func diffMoments(out io.Writer, first, second string, kinds []string, format string) (bool, error) {
	if err := checkOutput(format); err != nil {
		return false, err
	}
	changes, err := compareMoments(first, second, kinds)
	if err != nil {
		return false, err
	}
	if format == "json" {
		err = printJSON(out, changes)
	} else {
		err = writeChanges(out, changes)
	}
	return len(changes) > 0, err
}

// objectChange is the difference of an object between two moments.
type objectChange struct {
	Action    string        `json:"action"` // created, changed, deleted or replaced: deleted, and created with the same name
	Resource  string        `json:"resource"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name"`
	Fields    []fieldChange `json:"fields,omitempty"`

	key record.Key
}

// fieldChange is the difference of a field.
type fieldChange struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// compareMoments returns the differences of two moments.
func compareMoments(first, second string, kinds []string) ([]objectChange, error) {
	file, at := record.SplitMoment(first)
	before, err := readMoment(file, at)
	if err != nil {
		return nil, err
	}
	otherFile, otherAt := record.SplitMoment(second)
	after, err := readMoment(cmp.Or(otherFile, file), otherAt)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if !hasResource(before, kind) && !hasResource(after, kind) {
			return nil, fmt.Errorf("--kinds: no recording has the resource %q", kind)
		}
	}
	keys := maps.Clone(before.Objects)
	maps.Copy(keys, after.Objects)
	changes := []objectChange{}
	for key := range keys {
		if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind string) bool { return isResource(key.GroupResource(), kind) }) {
			continue
		}
		change, err := compareObjects(key, before.Objects[key], after.Objects[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	slices.SortFunc(changes, func(a, b objectChange) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return changes, nil
}

func readMoment(file, at string) (*record.Moment, error) {
	if file == "" {
		return nil, errors.New("the name of the file must not be empty")
	}
	m, f, err := record.ReadMoment(file, at)
	if err != nil {
		return nil, err
	}
	return m, f.Close()
}

// isResource reports whether a name is the one of a resource, with or without its group.
func isResource(r schema.GroupResource, name string) bool {
	return strings.EqualFold(name, r.Resource) || strings.EqualFold(name, r.Resource+"."+r.Group)
}

func hasResource(m *record.Moment, name string) bool {
	for r := range m.Resources {
		if isResource(r, name) {
			return true
		}
	}
	return false
}

// compareObjects returns the difference of two states of an object, or nil. A nil state means that there is no object.
func compareObjects(key record.Key, before, after json.RawMessage) (*objectChange, error) {
	change := &objectChange{Action: "changed", Namespace: key.Namespace, Name: key.Name, key: key,
		Resource: key.GroupResource().String()}
	switch {
	case before == nil:
		change.Action = "created"
		return change, nil
	case after == nil:
		change.Action = "deleted"
		return change, nil
	}
	var a, b unstructured.Unstructured
	if err := errors.Join(utiljson.Unmarshal(before, &a.Object), utiljson.Unmarshal(after, &b.Object)); err != nil {
		return nil, err
	}
	if a.GetUID() != b.GetUID() {
		change.Action = "replaced"
	}
	for _, d := range objectdiff.Changes(&a, &b) {
		change.Fields = append(change.Fields, fieldChange{d.Path, d.Before, d.Value})
	}
	if len(change.Fields) == 0 {
		return nil, nil
	}
	slices.SortFunc(change.Fields, func(a, b fieldChange) int { return cmp.Compare(a.Path, b.Path) })
	return change, nil
}

// writeChanges writes differences for people.
func writeChanges(out io.Writer, changes []objectChange) error {
	signs := map[string]string{"created": "+", "deleted": "-", "changed": "~", "replaced": "±"}
	for _, c := range changes {
		if _, err := fmt.Fprintf(out, "%s %s: %s\n", signs[c.Action], c.key, c.Action); err != nil {
			return err
		}
		for _, f := range c.Fields {
			if _, err := fmt.Fprintf(out, "    %s: %s\n", f.Path, f.text()); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns what happened to a field.
func (f fieldChange) text() string {
	switch {
	case f.Before == nil:
		return "added " + compact(f.After)
	case f.After == nil:
		return "removed " + compact(f.Before)
	}
	return compact(f.Before) + " → " + compact(f.After)
}

// compact returns a value as JSON on one line.
func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
