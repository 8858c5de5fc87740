package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// merge adds to a plan what another run of it shows.
func (p *Plan) merge(again *Plan) {
	for i, step := range again.Steps {
		if step.Error != p.Steps[i].Error && step.Reason != p.Steps[i].Reason {
			p.Unknown = append(p.Unknown, Unknown{step.Name, "the order of events decides, or chance, whether the API server refuses it: " +
				cmp.Or(step.Error, p.Steps[i].Error)})
		}
	}
	for _, r := range again.Refused {
		same := func(other Refusal) bool {
			return other.Object == r.Object && other.User == r.User && other.Reason == r.Reason
		}
		if !slices.ContainsFunc(p.Refused, same) {
			p.Refused = append(p.Refused, r)
		}
	}
	for _, u := range again.Unknown {
		if !slices.Contains(p.Unknown, u) {
			p.Unknown = append(p.Unknown, u)
		}
	}
	if p.Loops = again.Loops; len(p.Loops) == 0 { // an endless run ends anywhere
		p.Changes, p.Drift = merge(p.Changes, again.Changes), merge(p.Drift, again.Drift)
	}
}

// merge returns the changes that two runs have in common. Where the runs differ, a value is unknown, a name has an asterisk for its end,
// and an object that the runs do not change in the same way is Uncertain. Objects that only the second run changes follow the others.
func merge(first, second []Change) []Change {
	m := &merger{first: slices.Clone(first), second: second, pairs: map[int]int{}, renamed: [2]map[string]string{{}, {}}}
	for j := range second {
		m.left = append(m.left, j)
	}
	m.pair(func(a, b *Change) bool { return sameObject(a, b) && sameContent(a, b) })
	m.pair(func(a, b *Change) bool { return sameObject(a, b) && a.Action == b.Action })
	m.pair(m.sameButName)
	for i := range m.first {
		if j, ok := m.pairs[i]; ok {
			m.first[i].unite(&m.second[j])
		} else {
			m.first[i].Uncertain = true
		}
	}
	for _, j := range m.left {
		c := m.second[j]
		c.Uncertain = true
		m.first = append(m.first, c)
	}
	return m.first
}

// merger finds for each change of the first run the one of the second.
type merger struct {
	first, second []Change
	pairs         map[int]int          // of the indexes
	left          []int                // indexes of the second that are in no pair
	renamed       [2]map[string]string // owners with names that differ between the runs, and what they have in common
}

// pair pairs the changes that are left, and the same.
func (m *merger) pair(same func(a, b *Change) bool) {
	for i := range m.first {
		if _, ok := m.pairs[i]; ok {
			continue
		}
		k := slices.IndexFunc(m.left, func(j int) bool { return same(&m.first[i], &m.second[j]) })
		if k < 0 {
			continue
		}
		m.pairs[i] = m.left[k]
		m.left = slices.Delete(m.left, k, k+1)
	}
}

func sameObject(a, b *Change) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

func sameContent(a, b *Change) bool {
	return a.Action == b.Action && reflect.DeepEqual(a.Object, b.Object) && reflect.DeepEqual(a.Fields, b.Fields)
}

// sameButName reports whether the runs create an object by names that differ in their ends.
func (m *merger) sameButName(a, b *Change) bool {
	if a.Action != Create || b.Action != Create || a.APIVersion != b.APIVersion || a.Kind != b.Kind || a.Namespace != b.Namespace ||
		m.owner(0, a) != m.owner(1, b) {
		return false
	}
	name := commonName(a.Name, b.Name)
	if name == "" {
		return false
	}
	m.renamed[0][a.Kind+"/"+a.Name], m.renamed[1][b.Kind+"/"+b.Name] = a.Kind+"/"+name, a.Kind+"/"+name
	return true
}

// owner returns the owner of a change of a run, by what its name has in common with the one of the other run.
func (m *merger) owner(run int, c *Change) string {
	if name, ok := m.renamed[run][c.Owner]; ok {
		return name
	}
	return c.Owner
}

// commonName returns what two names have in common, up to a hyphen or a dot, and an asterisk. It is empty if that is nothing.
func commonName(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n = strings.LastIndexAny(a[:n], "-.") + 1; n == 0 {
		return ""
	}
	return a[:n] + "*"
}

// unite makes the values of a change unknown that are others in the second run.
func (c *Change) unite(other *Change) {
	if c.Name != other.Name {
		c.Name = commonName(c.Name, other.Name)
	}
	if c.Owner != other.Owner {
		c.Owner = commonName(c.Owner, other.Owner)
	}
	if c.Object != nil {
		c.Object, _ = common(c.Object, other.Object).(map[string]any)
	}
	left := slices.Clone(other.Fields)
	for i := range c.Fields {
		f := &c.Fields[i]
		j := slices.IndexFunc(left, func(o Field) bool { return o.Path == f.Path })
		if j < 0 {
			f.After = UnknownValue
			continue
		}
		f.After = common(f.After, left[j].After)
		left = slices.Delete(left, j, j+1)
	}
	for _, f := range left {
		f.After = UnknownValue
		c.Fields = append(c.Fields, f)
	}
	slices.SortFunc(c.Fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
}

// common returns what two values have in common. The rest is unknown.
func common(a, b any) any {
	if reflect.DeepEqual(a, b) {
		return a
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			all := map[string]any{}
			for key := range a {
				all[key] = common(a[key], b[key])
			}
			for key := range b {
				if _, both := a[key]; !both {
					all[key] = common(nil, b[key])
				}
			}
			return all
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			all := make([]any, len(a))
			for i := range a {
				all[i] = common(a[i], b[i])
			}
			return all
		}
	}
	return UnknownValue
}

// uncertain lists the objects that the runs of a plan do not change in the same way, with what they do.
func uncertain(changes []Change) (unknown []Unknown) {
	actions := map[string][]string{}
	var names []string
	for _, c := range changes {
		if !c.Uncertain {
			continue
		}
		name := name(c.Kind, c.APIVersion, c.Namespace, c.Name)
		if actions[name] == nil {
			names = append(names, name)
		}
		actions[name] = append(actions[name], string(c.Action))
	}
	for _, name := range names {
		slices.Sort(actions[name])
		all := slices.Compact(actions[name])
		if len(all) == 1 {
			all = append(all, "not")
		}
		unknown = append(unknown, Unknown{name, fmt.Sprintf("the order of events decides, or chance: %s", strings.Join(all, " or "))})
	}
	return unknown
}
