package scenarios

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// observer returns the states of a control plane, as lines. A line is a field of an object with its value, or an event.
type observer struct {
	times bool              // whether the values of times are compared
	uids  map[string]string // the names of objects by their UIDs, which are random
}

// state returns the state.
func (o observer) state(e controllerstest.Env, kinds []client.ObjectList) []string {
	e.Helper()
	var objects []client.Object
	for _, list := range kinds {
		list = list.DeepCopyObject().(client.ObjectList)
		e.Must(e.List(e.Context(), list))
		e.Must(meta.EachListItem(list, func(obj runtime.Object) error {
			objects = append(objects, obj.(client.Object))
			return nil
		}))
	}
	for _, obj := range objects {
		if uid := string(obj.GetUID()); o.uids[uid] == "" {
			o.uids[uid] = fmt.Sprintf("uid of %s", obj.GetName())
		}
	}
	lines := o.events(e)
	for _, obj := range objects {
		fields := o.fields(e, obj)
		slices.Sort(fields[1:])
		lines = append(lines, fields...)
	}
	return lines
}

// fields returns the fields of an object.
func (o observer) fields(e controllerstest.Env, obj client.Object) []string {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	e.Must(err)
	if node, ok := obj.(*corev1.Node); ok { // their order does not matter
		slices.SortFunc(node.Spec.Taints, func(a, b corev1.Taint) int { return strings.Compare(a.Key+string(a.Effect), b.Key+string(b.Effect)) })
	}
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	text, err := json.Marshal(obj)
	e.Must(err)
	var v any
	e.Must(json.Unmarshal(text, &v))
	name := fmt.Sprintf("%s %s", kinds[0].Kind, obj.GetName())
	return o.flatten(name+" ", v, []string{name + exists})
}

// flatten adds the lines of a value.
func (o observer) flatten(at string, v any, lines []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for k, field := range v {
			if k == "resourceVersion" {
				continue // of a reference
			}
			lines = o.flatten(at+"."+k, field, lines)
		}
		return lines
	case []any:
		for i, item := range v {
			lines = o.flatten(fmt.Sprintf("%s[%d]", at, i), item, lines)
		}
		return lines
	case string:
		v = o.withoutUIDs(v)
		if _, err := time.Parse(time.RFC3339, v); err == nil && !o.times {
			v = "a time"
		}
		return append(lines, at+" "+o.withoutSuffixes(v))
	default:
		return append(lines, fmt.Sprint(at, " ", v))
	}
}

// uid is a UID.
var uid = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// withoutUIDs replaces UIDs by the names of the objects.
func (o observer) withoutUIDs(text string) string {
	return uid.ReplaceAllStringFunc(text, func(uid string) string { return cmp.Or(o.uids[uid], "uid of another one") })
}

// suffix is the end of a generated name.
var suffix = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)

// withoutSuffixes replaces the ends of generated names, unless times are compared.
func (o observer) withoutSuffixes(text string) string {
	if o.times {
		return text
	}
	return suffix.ReplaceAllString(text, "-*")
}

// events returns the events.
func (o observer) events(e controllerstest.Env) []string {
	list := &corev1.EventList{}
	e.Must(e.List(e.Context(), list))
	counts := map[string]int32{}
	for _, ev := range list.Items {
		counts[fmt.Sprintf("Event of %s %s: %s %s %s %s", ev.InvolvedObject.Kind, ev.InvolvedObject.Name, ev.Source.Component, ev.Type, ev.Reason,
			o.withoutUIDs(ev.Message))] += max(1, ev.Count)
	}
	var lines []string
	for text, n := range counts {
		if o.times {
			text = fmt.Sprintf("%s, %d times", text, n)
		}
		lines = append(lines, o.withoutSuffixes(text))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// difference is a line of one state that the other has not, or not with the same value.
type difference struct{ where, ours, theirs string }

func (d difference) String() string {
	return fmt.Sprintf("%s\n  ours   %s\n  theirs %s\n", d.where, d.ours, d.theirs)
}

// differ returns where states differ.
func differ(ours, theirs []string) []difference {
	var list []difference
	for _, line := range missing(ours, theirs) {
		list = append(list, difference{where(line), line, "-"})
	}
	for _, line := range missing(theirs, ours) {
		list = append(list, difference{where(line), "-", line})
	}
	return list
}

// missing returns the lines that another state has not. Of an object that the other state has not, it is only the first.
func missing(lines, other []string) []string {
	var list []string
	object := ""
	for _, line := range lines {
		name, exists := strings.CutSuffix(line, exists)
		switch {
		case slices.Contains(other, line) || object != "" && strings.HasPrefix(line, object):
			continue
		case exists:
			object = name
		}
		list = append(list, line)
	}
	return list
}

// exists is the end of the first line of an object.
const exists = " exists"

// where returns what a line is about, without names.
func where(line string) string {
	words := strings.Fields(line)
	if words[0] == "Event" {
		return "Event " + strings.Join(words[4:min(7, len(words))], " ")
	}
	return words[0] + " " + words[2]
}

// differences are the listed differences of one controller. Each is a list of words in the lines that differ.
type differences map[string]int

// readDifferences reads the list for a controller.
func readDifferences(t *testing.T, controller string) differences {
	data, err := os.ReadFile("differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := differences{}
	for line := range strings.Lines(string(data)) {
		name, pattern, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == controller+":" {
			list[pattern] = 0
		}
	}
	return list
}

// unlisted returns the differences that are not listed.
func (l differences) unlisted(found []difference) []difference {
	return slices.DeleteFunc(found, func(d difference) bool {
		known := false
		for pattern := range l {
			if matches(pattern, d.ours+d.theirs) {
				l[pattern]++
				known = true
			}
		}
		return known
	})
}

// requireSeen fails the test if a listed difference has not occurred.
func (l differences) requireSeen(t *testing.T) {
	for pattern, n := range l {
		if n == 0 {
			t.Errorf("the difference %q is listed, but did not occur", pattern)
		}
	}
}
