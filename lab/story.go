package lab

import (
	"cmp"
	"fmt"
	"strings"

	"flyball.dev/ctrl/reconcile"
	"flyball.dev/storage"
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
	for i := range w.trace {
		w.tell(&b, &w.trace[i])
	}
	if f != nil {
		fmt.Fprintf(&b, "%9s  ✗ %s: %s\n", age(f.at), f.Check, f.Message)
		if len(f.left) > 0 {
			fmt.Fprintf(&b, "\nThe goroutines that are left:\n\n%s\n", stacksOf(f.left))
		}
	}
	return b.String()
}

// tell tells one event. It leaves out reads, Leases, and what the cluster's controllers do without a change.
func (w *world) tell(b *strings.Builder, e *event) {
	switch a := e.action; {
	case a == nil && e.text == "":
	case a == nil:
		mark := "·"
		if e.choice != nil {
			mark = "⚡"
		}
		fmt.Fprintf(b, "%9s  %s %s\n", age(e.at), mark, e.text)
	case a.isLease(), a.isRecord():
		return
	case a.process.cluster && len(e.changes) == 0:
		return
	case a.verb == "list" || a.verb == "watch" || a.verb == "get":
		if e.choice == nil {
			return
		}
		fallthrough
	default:
		fmt.Fprintf(b, "%9s    %s", age(e.at), a.name())
		if e.choice != nil {
			fmt.Fprintf(b, "   ⚡ %s", e.choice.Do)
		}
		b.WriteByte('\n')
		if causes := w.causesText(a.causes); causes != "" {
			fmt.Fprintf(b, "%15sbecause %s\n", "", causes)
		}
	}
	for i := range e.changes {
		c := &e.changes[i]
		if e.action != nil && e.action.process.cluster {
			continue
		}
		if e.action == nil {
			fmt.Fprintf(b, "%9s    %s %s\n", "", typeName(c.kind), strings.TrimPrefix(c.key, "/registry/"))
		}
		if fields := changedFields(c); fields != "" {
			fmt.Fprintf(b, "%s\n", strings.ReplaceAll(fields[1:], "      ", "               "))
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
