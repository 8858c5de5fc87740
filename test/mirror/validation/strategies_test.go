package validation

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/builtin/strategytest"
	_ "flyball.dev/internal/orphans"
)

var (
	objects  = flag.Int("objects", 3000, "the number of writes for each kind")
	only     = flag.String("kind", "", "a regular expression of the names of kinds, such as ^pods$")
	seed     = flag.Uint64("seed", 1, "the seed of the random numbers")
	examples = flag.Int("examples", 0, "how many differences of a kind to print with their objects")
)

func TestMain(m *testing.M) {
	capabilities.Setup(true, 0)    // as clusters with privileged pods have it
	klog.SetLogger(logr.Discard()) // upstream logs errors that it finds twice
	os.Exit(m.Run())
}

// TestStrategies writes generated objects of each kind on both sides and compares the outcomes.
func TestStrategies(t *testing.T) {
	all, err := allKinds()
	if err != nil {
		t.Fatal(err)
	}
	values, err := theCorpus()
	if err != nil {
		t.Fatal(err)
	}
	list, err := readListed("differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	selected, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("reset fields", func(t *testing.T) {
		for _, k := range all {
			for _, sub := range k.subresources() {
				ours, theirs := resetFields(&k.Ours, sub, k), resetFields(&k.theirs, sub, k)
				if ours != theirs && !list.has(k.Name+strings.TrimSuffix("/"+sub, "/")+" reset", ours+" instead of "+theirs) {
					t.Errorf("%s/%s: ours %s, theirs %s", k.Name, sub, ours, theirs)
				}
			}
		}
	})
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	defer showProgress()()
	var mu sync.Mutex
	total, valid := 0, 0
	t.Run("kinds", func(t *testing.T) {
		for _, k := range all {
			if !selected.MatchString(k.Name) {
				continue
			}
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				r := newRun(k, values, list)
				r.all(ctx, t, *objects)
				r.report(t)
				mu.Lock()
				defer mu.Unlock()
				total, valid = total+r.writes, valid+r.valid
			})
		}
	})
	t.Logf("%d writes, %d valid upstream", total, valid)
	if *only == "" && *seed == 1 && *objects == flagDefault("objects") {
		if valid*100 < 60*total {
			t.Errorf("%d of %d writes are valid upstream, less than 60 %%", valid, total)
		}
		for _, reason := range list.unused() {
			t.Errorf("differences.txt gives a reason for what does not occur: %s", reason)
		}
	}
}

// written counts the writes of all kinds.
var written atomic.Int64

// showProgress prints the count of writes to stderr now and then, until the function that it returns is called.
func showProgress() (end func()) {
	ticker, done := time.NewTicker(20*time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "%s: %d writes\n", time.Now().Format(time.TimeOnly), written.Load())
			case <-done:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(done) }
}

// resetFields returns the fields that a strategy resets, in the version of the kind.
func resetFields(s *strategytest.Side, subresource string, k *kind) string {
	strategy, ok := s.Strategies[subresource].(rest.ResetFieldsStrategy)
	if !ok {
		return ""
	}
	set := strategy.GetResetFields()[fieldpath.APIVersion(k.Resource.GroupVersion().String())]
	if set == nil {
		return ""
	}
	return set.String()
}

// flagDefault returns the default of a flag that is a number.
func flagDefault(name string) int {
	var n int
	fmt.Sscan(flag.Lookup(name).DefValue, &n)
	return n
}

// run are the writes of one kind.
type run struct {
	*kind
	mutator
	list   *listed
	record selection        // nil unless the writes are recorded
	inputs []runtime.Object // objects to create
	stored []runtime.Object // objects to update
	fixed  int              // the first of both, which are the seeds

	writes, valid int
	found         map[string]*finding
}

// finding is a kind of difference.
type finding struct {
	count   int
	example string
	write   strategytest.Write
}

func newRun(k *kind, values *corpus, list *listed) *run {
	h := fnv.New64a()
	h.Write([]byte(k.Name))
	r := &run{kind: k, mutator: mutator{Rand: rand.New(rand.NewPCG(*seed, h.Sum64())), corpus: values, graph: graph{}}, list: list, found: map[string]*finding{}}
	return r
}

// all does n writes, or fewer if ctx ends.
func (r *run) all(ctx context.Context, t *testing.T, n int) {
	for _, seed := range r.seeds[r.GVK.GroupVersion().String()+"/"+r.GVK.Kind] {
		r.complete(seed)
		r.inputs = append(r.inputs, seed)
		if theirs := r.write(strategytest.Write{Object: seed}); !theirs.Valid() {
			t.Errorf("a seed is invalid upstream: %v %s", theirs.Errors, theirs.Failed)
		}
	}
	if len(r.inputs) == 0 {
		t.Error("no seeds")
		return
	}
	for _, seed := range r.inputs {
		old := seed.DeepCopyObject()
		r.theirs.Defaulter.Default(old) // defaults can have the time of the write
		r.stored = append(r.stored, old)
	}
	r.fixed = len(r.inputs)
	subresources := r.subresources()
	for r.writes < n && ctx.Err() == nil {
		if r.chance(45) {
			obj := r.choose(r.inputs).DeepCopyObject()
			r.object(obj, map[string]int{"TypeMeta": 0, "ObjectMeta": 1, "Status": 0})
			r.write(strategytest.Write{Object: obj})
			continue
		}
		sub := subresources[r.IntN(len(subresources))]
		weights := map[string]int{"TypeMeta": 0, "ObjectMeta": 1, "Status": 1}
		if sub == "status" || sub == "approval" {
			weights = map[string]int{"TypeMeta": 0, "ObjectMeta": 1, "Spec": 1, "Status": 12}
		}
		old := r.choose(r.stored)
		obj := old.DeepCopyObject()
		if r.chance(5) {
			obj = r.choose(r.stored).DeepCopyObject()
		}
		r.object(obj, weights)
		copyIdentity(obj, old)
		r.write(strategytest.Write{Subresource: sub, Object: obj, Old: old})
	}
	for _, asked := range r.requests[r.Name] { // last, so that the others do not depend on them
		r.ask(t, asked)
	}
}

// ask does a write of testdata/requests.jsonl.
func (r *run) ask(t *testing.T, asked *strategytest.Recorded) {
	w, err := asked.Write(r.Kind)
	if err != nil {
		t.Error(err)
		return
	}
	if w.Old != nil {
		r.complete(w.Old)
		r.theirs.Defaulter.Default(w.Old)
		copyIdentity(w.Object, w.Old)
	}
	r.write(w)
}

// copyIdentity gives an object the name of another, as the handlers of updates require.
func copyIdentity(to, from runtime.Object) {
	a, _ := meta.Accessor(to)
	b, _ := meta.Accessor(from)
	a.SetName(b.GetName())
	a.SetUID(b.GetUID())
}

// complete sets what the handlers set before a strategy.
func (r *run) complete(obj runtime.Object) {
	object, _ := meta.Accessor(obj)
	object.SetUID("00000000-0000-0000-0000-000000000001")
	object.SetCreationTimestamp(metav1.NewTime(time.Unix(1700000000, 0).UTC()))
	object.SetResourceVersion("1")
	if r.Namespaced {
		object.SetNamespace(strategytest.Namespace)
	} else {
		object.SetNamespace("")
	}
	if object.GetName() == "" {
		object.SetGenerateName("")
	}
}

// choose returns a seed in half of the cases, or else an object that was found to be valid.
func (r *run) choose(from []runtime.Object) runtime.Object {
	if r.chance(50) {
		return from[r.IntN(r.fixed)]
	}
	return from[r.IntN(len(from))]
}

// write does a write on both sides, and returns upstream's outcome.
func (r *run) write(w strategytest.Write) *strategytest.Outcome {
	r.complete(w.Object)
	ours, theirs := r.Do(&r.Ours, w), r.Do(&r.theirs, w)
	if strings.HasPrefix(theirs.Failed, "panic: ") {
		return &theirs // a request that crashes kube-apiserver is no measure
	}
	r.writes++
	written.Add(1)
	if theirs.Valid() {
		r.valid++
	}
	differences := strategytest.Compare(&ours, &theirs)
	if len(differences) > 0 { // a second may have begun between the two
		ours, theirs = r.Do(&r.Ours, w), r.Do(&r.theirs, w)
		differences = strategytest.Compare(&ours, &theirs)
	}
	for _, d := range differences {
		r.note(d, w)
	}
	if len(differences) == 0 && r.record != nil {
		r.record.consider(r.kind, w, &theirs)
	}
	if len(differences) == 0 && theirs.Valid() {
		r.keep(w, &theirs)
	}
	return &theirs
}

// kept is how many valid objects are kept to be changed further.
const kept = 60

// keep keeps a valid object, and what was stored of it.
func (r *run) keep(w strategytest.Write, o *strategytest.Outcome) {
	if len(o.Result) > 8000 || !r.chance(30) {
		return
	}
	if w.Old == nil {
		r.inputs = r.put(r.inputs, w.Object)
	}
	stored, err := builtin.Scheme().New(r.GVK)
	if err == nil {
		err = json.Unmarshal([]byte(o.Result), stored)
	}
	if err == nil {
		r.stored = r.put(r.stored, stored)
	}
}

// put adds an object to a list of bounded length.
func (r *run) put(list []runtime.Object, obj runtime.Object) []runtime.Object {
	if len(list) < r.fixed+kept {
		return append(list, obj)
	}
	list[r.fixed+r.IntN(kept)] = obj
	return list
}

// note counts a difference.
func (r *run) note(difference string, w strategytest.Write) {
	at := r.Name
	if w.Old == nil {
		at += " create"
	} else {
		at += strings.TrimSuffix("/"+w.Subresource, "/") + " update"
	}
	sign := signature(difference)
	if r.list.has(at, sign) {
		return
	}
	key := at + ": " + sign
	f := r.found[key]
	if f == nil {
		f = &finding{example: difference, write: w}
		r.found[key] = f
	}
	f.count++
}

// leastValid is the percentage of the writes of a kind that must be valid upstream. Otherwise most writes would compare errors.
const leastValid = 25

// report reports the differences that are not listed, and too few writes.
func (r *run) report(t *testing.T) {
	t.Logf("%d writes, %d%% valid", r.writes, 100*r.valid/max(1, r.writes))
	if *objects >= flagDefault("objects") && (r.writes < *objects || 100*r.valid < leastValid*r.writes) {
		t.Errorf("%d of %d writes are valid upstream, less than %d %%", r.valid, r.writes, leastValid)
	}
	if len(r.found) == 0 {
		return
	}
	t.Errorf("%d kinds of differences; to see them again: go test ./validation -run TestStrategies -kind '^%s$' -objects %d -seed %d",
		len(r.found), r.Name, *objects, *seed)
	keys := slices.SortedFunc(maps.Keys(r.found), func(a, b string) int { return r.found[b].count - r.found[a].count })
	for i, key := range keys {
		f := r.found[key]
		t.Logf("%5d %s\n      %.600s", f.count, key, f.example)
		if i < *examples {
			old, _ := json.Marshal(f.write.Old)
			obj, _ := json.Marshal(f.write.Object)
			t.Logf("      old: %s\n      new: %s", old, obj)
		}
	}
}

// listed are the differences of differences.txt.
type listed struct {
	mu      sync.Mutex
	entries []*entry
}

// entry is a line of differences.txt.
type entry struct {
	reason  string
	pattern *regexp.Regexp
	used    bool
}

// isWhole reports whether an entry excuses all differences of a kind.
func isWhole(entry string) bool {
	_, sign, named := strings.Cut(entry, ": ")
	return !named || strings.Trim(sign, "* ") == ""
}

// readListed reads a list of differences. A line that begins with # is the reason for the lines that follow;
// each of these is the text of a difference, in which * stands for anything.
func readListed(file string) (*listed, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	l := &listed{}
	reason := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			reason = ""
		case strings.HasPrefix(line, "#"):
			reason += line
		case len(strings.Fields(reason)) < 4:
			return nil, fmt.Errorf("%s: no reason for %q", file, line)
		default:
			if isWhole(line) {
				return nil, fmt.Errorf("%s: %q excuses all differences of a kind", file, line)
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(line), `\*`, `.*`)
			l.entries = append(l.entries, &entry{reason: reason, pattern: regexp.MustCompile("(?s)^" + pattern + "$")})
		}
	}
	return l, nil
}

// has reports whether a difference is listed.
func (l *listed) has(at, sign string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := false
	for _, e := range l.entries {
		if e.pattern.MatchString(at + ": " + sign) {
			e.used, found = true, true
		}
	}
	return found
}

// unused returns the reasons without an entry that has matched. The rarer entries of a reason need more objects.
func (l *listed) unused() []string {
	used := map[string]bool{}
	for _, e := range l.entries {
		used[e.reason] = used[e.reason] || e.used
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(used)), func(reason string) bool { return used[reason] })
}
