package validation

import (
	"cmp"
	"encoding/json"
	"flag"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"flyball.dev/apiserver/builtin/strategytest"
)

var recording = flag.Bool("record", false, "choose writes among new ones and the recorded ones, and record the answers")

// recorded is the file of the recording.
const recorded = "../../../apiserver/builtin/testdata/validation.jsonl.gz"

// TestRecording checks that Kubernetes answers the recorded writes as recorded. With -record it chooses among the writes of
// TestStrategies and among the recorded ones, and records Kubernetes' answers. Package builtin replays them.
func TestRecording(t *testing.T) {
	all, err := allKinds()
	if err != nil {
		t.Fatal(err)
	}
	if *recording {
		before, err := strategytest.ReadRecording(recorded)
		if err != nil {
			t.Fatal(err)
		}
		if err := strategytest.WriteRecording(recorded, record(t, all, before)); err != nil {
			t.Fatal(err)
		}
	}
	writes, err := strategytest.ReadRecording(recorded)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*kind{}
	for _, k := range all {
		byName[k.Name] = k
	}
	synctest.Test(t, func(t *testing.T) { // the time is always the same
		for i, r := range writes {
			k := byName[r.Kind]
			if k == nil {
				t.Fatalf("%s is not served", r.Kind)
			}
			theirs, err := k.answer(r, &k.theirs)
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			for _, d := range strategytest.Compare(theirs, r.Outcome()) {
				t.Errorf("line %d, %s %s: Kubernetes and the recording differ: %.400s", i+1, r.Kind, r.Subresource, d)
			}
		}
	})
}

// answer returns the outcome of a recorded write on one side.
func (k *kind) answer(r *strategytest.Recorded, s *strategytest.Side) (*strategytest.Outcome, error) {
	w, err := r.Write(k.Kind)
	if err != nil {
		return nil, err
	}
	o := k.Do(s, w)
	return &o, nil
}

// record returns for each feature of the writes of a run, and of the writes before, at least one write, chosen among the smallest, with
// Kubernetes' answers. It leaves out the writes that ours answers differently.
func record(t *testing.T, all []*kind, before []*strategytest.Recorded) []*strategytest.Recorded {
	values, err := theCorpus()
	if err != nil {
		t.Fatal(err)
	}
	list, err := readListed("differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	selections := make([]selection, len(all))
	var running sync.WaitGroup
	for i, k := range all {
		if k.Name == strategytest.Unrecorded {
			continue
		}
		running.Go(func() {
			selections[i] = selection{}
			r := newRun(k, values, list)
			r.record = selections[i]
			r.all(t.Context(), t, *objects)
		})
	}
	running.Wait()
	together := selection{}
	for i := range all {
		for _, f := range slices.Sorted(maps.Keys(selections[i])) {
			together.keep(f, selections[i][f])
		}
	}
	byName := map[string]*kind{}
	for _, k := range all {
		byName[k.Name] = k
	}
	var recorded []*strategytest.Recorded
	synctest.Test(t, func(t *testing.T) {
		for _, r := range before {
			k := byName[r.Kind]
			if k == nil {
				continue // the kind is not served any longer
			}
			theirs, err := k.answer(r, &k.theirs)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := k.answer(r, &k.Ours)
			if err != nil {
				t.Fatal(err)
			}
			if len(strategytest.Compare(ours, theirs)) == 0 {
				together.add(&candidate{r, features(r, theirs)})
			}
		}
		for _, c := range together.choose() {
			r, k := c.Recorded, byName[c.Kind]
			theirs, err := k.answer(r, &k.theirs)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := k.answer(r, &k.Ours)
			if err != nil {
				t.Fatal(err)
			}
			if len(strategytest.Compare(ours, theirs)) == 0 { // JSON does not tell an empty list from none
				r.SetOutcome(theirs)
				recorded = append(recorded, r)
			}
		}
	})
	t.Logf("%d writes for %d features", len(recorded), len(together))
	return recorded
}

// candidate is a write that may be recorded, with its features.
type candidate struct {
	*strategytest.Recorded
	features []string
}

// selection has the smallest write for each feature.
type selection map[string]*candidate

// consider keeps a write if it is the smallest one with a feature.
func (s selection) consider(k *kind, w strategytest.Write, o *strategytest.Outcome) {
	r, err := strategytest.Record(k.Kind, w)
	if err != nil {
		return
	}
	s.add(&candidate{r, features(r, o)})
}

func (s selection) add(c *candidate) {
	for _, f := range c.features {
		s.keep(f, c)
	}
}

func (s selection) keep(feature string, c *candidate) {
	if old := s[feature]; old == nil || c.size() < old.size() {
		s[feature] = c
	}
}

func (c *candidate) size() int { return len(c.Object) + len(c.Old) }

// choose returns writes with all features, without those that only show what others show, too. Similar writes follow each other,
// because the recording is compressed.
func (s selection) choose() []*candidate {
	chosen, shown := map[*candidate]bool{}, map[string]int{}
	for _, c := range s {
		if !chosen[c] {
			chosen[c] = true
			for _, f := range c.features {
				shown[f]++
			}
		}
	}
	order := func(a, b *candidate) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subresource, b.Subresource),
			strings.Compare(string(a.Old), string(b.Old)), strings.Compare(string(a.Object), string(b.Object)))
	}
	largest := slices.SortedFunc(maps.Keys(chosen), func(a, b *candidate) int { return cmp.Or(b.size()-a.size(), order(a, b)) })
	for _, c := range largest {
		if !slices.ContainsFunc(c.features, func(f string) bool { return shown[f] == 1 }) {
			delete(chosen, c)
			for _, f := range c.features {
				shown[f]--
			}
		}
	}
	return slices.SortedFunc(maps.Keys(chosen), order)
}

// template is the place of a pod template in the kinds that have one. They share its rules.
var template = regexp.MustCompile(`\b(spec\.jobTemplate\.)?(spec\.)?template\.`)

// features returns what a write shows: the errors, the warnings, the fields with defaults and those that are reset, and the fields
// that are present or change in a valid write.
func features(r *strategytest.Recorded, o *strategytest.Outcome) []string {
	operation := "create"
	if r.Old != nil {
		operation = "update " + r.Subresource
	}
	var all []string
	add := func(what, text string) {
		of := r.Kind
		if shared := template.ReplaceAllString(text, "template."); strings.HasPrefix(shared, "template.") {
			of, text = "", shared
		}
		all = append(all, of+" "+operation+" "+what+" "+text)
	}
	if o.Failed != "" {
		add("failed", signature(o.Failed))
	}
	for _, e := range o.Errors {
		add("error", signature(e))
	}
	if !o.Valid() {
		return all
	}
	for _, w := range o.Warnings {
		add("warning", signature(w))
	}
	for _, d := range strategytest.Differences(string(r.Object), o.Defaulted) {
		add("default", place(d))
	}
	for _, d := range strategytest.Differences(o.Defaulted, o.Result) {
		add("reset", place(d))
	}
	if r.Old != nil {
		for _, d := range strategytest.Differences(string(r.Old), string(r.Object)) {
			add("change", place(d))
		}
		return all
	}
	var object any
	if json.Unmarshal(r.Object, &object) == nil {
		present("", object, func(path string) { add("field", path) })
	}
	return all
}

// place returns the path of a difference, without indexes and keys.
func place(difference string) string {
	path, _, _ := strings.Cut(difference, ": ours ")
	return inBrackets.ReplaceAllString(path, "[]")
}

// present visits the paths in a JSON value.
func present(path string, v any, visit func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if strings.ContainsAny(key, "./") {
				key = "[]"
			}
			present(strings.TrimPrefix(path+"."+key, "."), value, visit)
		}
	case []any:
		for _, value := range v {
			present(path+"[]", value, visit)
		}
	default:
		visit(path)
	}
}
