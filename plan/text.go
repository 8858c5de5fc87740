package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// signs are the signs of the actions.
var signs = map[Action]string{Create: "+", Update: "~", Delete: "-", Replace: "±"}

// WriteText writes a plan for people. New objects that a controller of Kubernetes would make are a line each, unless all is true.
func (p *Plan) WriteText(out io.Writer, all bool) error {
	t := &textWriter{all: all}
	if p.Source != "" {
		t.line("Plan for %s\n", p.Source)
	}
	for _, s := range p.Steps {
		if s.Error == "" {
			t.line("  %s", s.Name)
		} else {
			t.line("! %s: refused: %s", s.Name, oneLine(s.Error))
		}
	}
	if len(p.Steps) > 0 {
		t.line("")
	}
	t.changes("Already before the change, the operator would do this:", p.Drift)
	t.changes("", p.Changes)
	t.line("%s", p.Summary())
	t.section("Refused by the API server:", len(p.Refused))
	for _, r := range p.Refused {
		t.line("! %s: %s: %s", r.Object, r.Write, oneLine(r.Message))
	}
	t.section("Never quiet: these objects still change at the end, and the plan is not complete:", len(p.Loops))
	for _, l := range p.Loops {
		t.line("∞ %s", name(l.Kind, l.APIVersion, l.Namespace, l.Name))
		t.writes(merged(l.Writes))
		t.fields(l.Fields)
	}
	t.section("Not known:", len(p.Unknown))
	for _, u := range p.Unknown {
		t.line("? %s: %s", u.What, oneLine(u.Why))
	}
	_, err := io.WriteString(out, t.String())
	return err
}

// Summary says in one line how many objects would change.
func (p *Plan) Summary() string {
	counts, uncertain := map[Action]int{}, 0
	for _, c := range p.Changes {
		if c.Uncertain {
			uncertain++
		} else {
			counts[c.Action]++
		}
	}
	text := fmt.Sprintf("%d to create, %d to change, %d to delete", counts[Create], counts[Update], counts[Delete])
	if n := counts[Replace]; n > 0 {
		text += fmt.Sprintf(", %d to replace", n)
	}
	if uncertain > 0 {
		text += fmt.Sprintf(", and %d perhaps", uncertain)
	}
	if len(p.Changes) == 0 && !p.Different() {
		text = "Nothing would change"
	}
	return text + "."
}

// textWriter collects lines.
type textWriter struct {
	strings.Builder
	all bool
}

func (t *textWriter) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

func (t *textWriter) section(title string, entries int) {
	if entries > 0 {
		t.line("\n%s", title)
	}
}

// changes writes changes. Equal ones are written once, in the place of the first.
func (t *textWriter) changes(title string, changes []Change) {
	if len(changes) == 0 {
		return
	}
	if title != "" {
		t.line("%s", title)
	}
	var texts []string
	times := map[string]int{}
	for i := range changes {
		one := textWriter{all: t.all}
		one.change(&changes[i])
		text := one.String()
		if times[text] == 0 {
			texts = append(texts, text)
		}
		times[text]++
	}
	for _, text := range texts {
		if n := times[text]; n > 1 {
			first, rest, _ := strings.Cut(text, "\n")
			text = fmt.Sprintf("%s (%d of them)\n%s", first, n, rest)
		}
		t.WriteString(text)
	}
	t.line("")
}

func (t *textWriter) change(c *Change) {
	owner := ""
	if c.Owner != "" {
		owner = " of " + c.Owner
	}
	t.line("%s %s %s%s", signs[c.Action], c.Title(), name(c.Kind, c.APIVersion, c.Namespace, c.Name), owner)
	t.writes(authors(c.Writes))
	t.fields(c.Fields)
	if c.Object == nil || c.brief && !t.all {
		return
	}
	for line := range strings.Lines(c.Manifest()) {
		t.WriteString("    " + line)
	}
}

// Title returns the action, and whether it is certain.
func (c *Change) Title() string {
	if c.Uncertain {
		return "perhaps " + string(c.Action)
	}
	return string(c.Action)
}

// Manifest returns the content of a new object in YAML, without its identity.
func (c Change) Manifest() string {
	content := map[string]any{}
	for key, value := range c.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" {
			content[key] = value
		}
	}
	metadata := map[string]any{}
	all, _ := c.Object["metadata"].(map[string]any)
	for key, value := range all {
		if key != "name" && key != "namespace" && key != "ownerReferences" {
			metadata[key] = value
		}
	}
	if len(metadata) > 0 {
		content["metadata"] = metadata
	}
	if len(content) == 0 {
		return ""
	}
	text, err := yaml.Marshal(content)
	if err != nil { // the content is decoded JSON
		return fmt.Sprintln(content)
	}
	return string(text)
}

// writes writes who has written, and why: few lines for many writes.
func (t *textWriter) writes(writes []Write) {
	const most = 4
	for i, w := range writes {
		if i == most && len(writes) > most+1 {
			t.line("    and %d more writes", len(writes)-most)
			return
		}
		t.line("    %s", w)
	}
}

// merged joins the writes of one author with one verb. The first one says why.
func merged(writes []Write) (all []Write) {
	for _, w := range writes {
		same := func(other Write) bool {
			return other.Verb == w.Verb && other.User == w.User && other.Client == w.Client
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].Times += max(w.Times, 1)
			continue
		}
		w.Times = max(w.Times, 1)
		all = append(all, w)
	}
	return all
}

// authors are the authors of writes: the first one, with the reason, and the others in the order of their names. How often each has
// written, and after which events, depends on chance.
func authors(writes []Write) []Write {
	all := merged(writes)
	for i := range all {
		if all[i].Times = 0; i > 0 {
			all[i].Because = ""
		}
	}
	if len(all) > 1 {
		slices.SortFunc(all[1:], func(a, b Write) int { return cmp.Compare(a.String(), b.String()) })
	}
	return all
}

func (t *textWriter) fields(fields []Field) {
	for _, f := range fields {
		t.line("    %s: %s", f.Path, f)
	}
}

// String describes the write on one line.
func (w Write) String() string {
	text := "by " + w.User
	if w.Client != "" {
		text += " (" + w.Client + ")"
	}
	text += ": " + w.Verb
	if w.Times > 1 {
		text += fmt.Sprintf(", %d times", w.Times)
	}
	if w.Because != "" {
		text += ", because " + w.Because
	}
	return text
}

// String describes what happens to the value.
func (f Field) String() string {
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
	if value == UnknownValue || value == SensitiveValue {
		return fmt.Sprint(value)
	}
	text, err := json.Marshal(value)
	return cmp.Or(string(text), fmt.Sprint(value, err))
}

// name names an object: its kind with the group, its namespace and its name.
func name(kind, apiVersion, namespace, name string) string {
	if group, _, ok := strings.Cut(apiVersion, "/"); ok {
		kind += "." + group
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// oneLine joins the lines of a text.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
