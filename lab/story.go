package lab

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/ctrl/reconcile"
	"flyball.dev/internal/canonical"
	"flyball.dev/storage"
)

// A story of more than longStory events keeps its faults and its first and last storyEnds events.
const (
	longStory = 1000
	storyEnds = 100
)

// story tells the run: what users and faults did, what the operator saw, what it wrote and why, and what the server stored. It ends
// with the finding, unless that is nil.
func (w *world) story(f *Finding) string {
	var b strings.Builder
	for i := range w.schedule {
		fmt.Fprintf(&b, "choice %d: %s\n", i+1, w.schedule[i])
	}
	for _, s := range w.steps {
		fmt.Fprintf(&b, "only step %d: %s\n", s.N, s.Name)
	}
	for _, l := range w.lines() {
		l.tell(&b)
	}
	if f != nil {
		fmt.Fprintf(&b, "%9s  ✗ %s: %s\n", age(f.at), f.Check, f.Message)
		if len(f.left) > 0 {
			fmt.Fprintf(&b, "\nThe goroutines that are left:\n\n%s\n", stacksOf(f.left))
		}
	}
	return b.String()
}

// A line of a story is an event that a reader wants to know. The fields are exported for the page of a finding.
type line struct {
	At     string
	Text   string // of a step or a fault, or the name of an action
	action *action
	choice *Choice
	isRead bool   // without a fault: only the changes after it tell something
	Causes string // of the reconcile that writes
	// Changes are the writes that the server has stored.
	Changes []lineChange
}

// lineChange is a write that the server has stored.
type lineChange struct {
	Text, Fields string // such as "changed ConfigMap default/web", and its fields, one a line
	key          string // "changed configmaps/default/web"
}

// IsPlain reports whether the line is no action, but a step or a fault.
func (l *line) IsPlain() bool { return l.action == nil }

// IsFault reports whether the line has a choice of the schedule.
func (l *line) IsFault() bool { return l.choice != nil }

// Fault returns the fault at an action.
func (l *line) Fault() Fault { return l.choice.Do }

// ByCluster reports whether the line is a write of a controller of the cluster.
func (l *line) ByCluster() bool { return !l.IsPlain() && !l.isRead && l.action.process.cluster }

// Saw reports whether the operator has seen an event, or has a fault at a read.
func (l *line) Saw() bool { return l.ofOperator() && !l.Wrote() }

// Wrote reports whether the operator has written something, or called an external system.
func (l *line) Wrote() bool { return l.ofOperator() && (l.action.isWrite() || l.action.verb == call) }

func (l *line) ofOperator() bool { return !l.IsPlain() && !l.isRead && !l.action.process.cluster }

// lines returns the events of the story. It skips Leases, Events, and reads and cluster actions without changes. A read with a fault stays.
func (w *world) lines() (all []line) {
	left := 0
	for i := range w.trace {
		e := &w.trace[i]
		if len(w.trace) > longStory && e.choice == nil && i >= storyEnds && i < len(w.trace)-storyEnds {
			left++
			continue
		}
		if left > 0 {
			all = append(all, line{At: age(e.at), Text: fmt.Sprintf("… %d events are left out", left)})
			left = 0
		}
		l := line{At: age(e.at), Text: e.text, action: e.action, choice: e.choice}
		switch a := e.action; {
		case a == nil && e.text == "":
			continue
		case a == nil:
		case a.isLease(), a.isRecord():
			continue
		case a.process.cluster && len(e.changes) == 0:
			continue
		default:
			l.Text, l.Causes = a.name(), w.causesText(a.causes)
			l.isRead = e.choice == nil && (a.verb == "list" || a.verb == "watch" || a.verb == "get")
		}
		if l.isRead && len(e.changes) == 0 {
			continue
		}
		for i := range e.changes {
			l.Changes = append(l.Changes, w.lineChange(&e.changes[i]))
		}
		all = append(all, l)
	}
	return all
}

func (w *world) lineChange(c *change) lineChange {
	l := lineChange{key: typeName(c.kind) + " " + strings.TrimPrefix(c.key, "/registry/")}
	l.Text = l.key
	if fields := changedFields(c); fields != "" {
		l.Fields = strings.ReplaceAll(fields[1:], "      ", "")
	}
	if object, err := decode(c.value()); err == nil {
		o := &unstructured.Unstructured{Object: object}
		names := w.names.replacements()
		o.SetName(cmp.Or(names[o.GetName()], o.GetName()))
		l.Text = typeName(c.kind) + " " + describe(o)
	}
	return l
}

// changedFields names the fields that a write has changed.
func changedFields(c *change) string {
	if c.kind != storage.Modified {
		return ""
	}
	before, err := decode(c.before)
	if err != nil {
		return ""
	}
	after, err := decode(c.after)
	if err != nil {
		return ""
	}
	plain, o := canonical.Of(strings.NewReplacer()), &unstructured.Unstructured{Object: after}
	var texts []string
	for _, d := range canonical.CompareFields("", plain.Fields(o), plain.Fields(&unstructured.Unstructured{Object: before}), nil) {
		d = hidden(kindOf(o), d)
		texts = append(texts, fmt.Sprintf("%s: %s → %s", d.Path, orNone(d.Want), orNone(d.Got)))
	}
	if len(texts) > 6 {
		texts = append(texts[:6], "…")
	}
	if len(texts) == 0 {
		return ""
	}
	return "\n      " + strings.Join(texts, "\n      ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// tell tells one event in text.
func (l *line) tell(b *strings.Builder) {
	if l.isRead {
		return
	}
	if l.IsPlain() {
		mark := "·"
		if l.IsFault() {
			mark = "⚡"
		}
		fmt.Fprintf(b, "%9s  %s %s\n", l.At, mark, l.Text)
	} else {
		fmt.Fprintf(b, "%9s    %s", l.At, l.Text)
		if l.IsFault() {
			fmt.Fprintf(b, "   ⚡ %s", l.Fault())
		}
		b.WriteByte('\n')
		if l.Causes != "" {
			fmt.Fprintf(b, "%15sbecause %s\n", "", l.Causes)
		}
	}
	if l.ByCluster() {
		return
	}
	for _, c := range l.Changes {
		if l.IsPlain() {
			fmt.Fprintf(b, "%9s    %s\n", "", c.key)
		}
		for field := range strings.Lines(c.Fields) {
			fmt.Fprintf(b, "%15s%s\n", "", strings.TrimSuffix(field, "\n"))
		}
	}
}

// causesText says what woke a reconcile, as flyball why does, with canonical names and without resource versions. It is empty if nothing is
// known, as for a program.
func (w *world) causesText(causes reconcile.Causes) string {
	names, texts := w.names.replacements(), make([]string, len(causes.List))
	for i, c := range causes.List {
		c.Object.Name, c.ResourceVersion, c.Changed = cmp.Or(names[c.Object.Name], c.Object.Name), "", ""
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

func typeName(t storage.Type) string {
	switch t {
	case storage.Created:
		return "created"
	case storage.Modified:
		return "changed"
	}
	return "deleted"
}
