package plan

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"flyball.dev/internal/canonical"
	"flyball.dev/internal/objectdiff"
	"flyball.dev/storage"
)

// report makes a plan of the events of a run.
type report struct {
	*world
	form *canonical.Form
	// folded are the objects with events, by phase, in the order of the first event of each.
	folded map[phase][]*folded
}

// folded are the events of an object in a phase.
type folded struct {
	key           string
	before, after *unstructured.Unstructured // nil if there is no object
	events        []*event
}

// last returns the object, as it is at the end or was before its deletion.
func (f *folded) last() *unstructured.Unstructured { return cmp.Or(f.after, f.before) }

// report decodes the objects of a run.
func (w *world) report() (*report, error) {
	r := &report{world: w, folded: map[phase][]*folded{}}
	byKey := map[phase]map[string]*folded{}
	for i := range w.events {
		e := &w.events[i]
		if byKey[e.phase] == nil {
			byKey[e.phase] = map[string]*folded{}
		}
		f := byKey[e.phase][e.Record.Key]
		if f == nil {
			f = &folded{key: e.Record.Key}
			byKey[e.phase][e.Record.Key] = f
			r.folded[e.phase] = append(r.folded[e.phase], f)
		}
		f.events = append(f.events, e)
	}
	objects := map[string]*unstructured.Unstructured{}
	names := map[string]string{}
	for _, all := range r.folded {
		for _, f := range all {
			if err := f.decode(); err != nil {
				return nil, fmt.Errorf("%s: %w", f.key, err)
			}
			if o := f.last(); o != nil && f.before == nil {
				objects[f.key] = o
				addNames(names, o)
			}
		}
	}
	r.form = canonical.New(maps.Values(objects), names)
	return r, nil
}

// decode decodes the states before and after the events.
func (f *folded) decode() (err error) {
	first, last := f.events[0], f.events[len(f.events)-1]
	switch {
	case first.Type == storage.Deleted:
		f.before, err = decode(first.Record)
	case first.Prev != nil:
		f.before, err = decode(first.Prev)
	}
	if err == nil && last.Type != storage.Deleted {
		f.after, err = decode(last.Record)
	}
	return err
}

func decode(r *storage.Record) (*unstructured.Unstructured, error) {
	content, err := canonical.Decode(r.Value())
	return &unstructured.Unstructured{Object: content}, err
}

// tokenVolume is the name of the volume that the admission of pods adds, with random letters.
var tokenVolume = regexp.MustCompile(`^kube-api-access-[a-z0-9]{5}$`)

// addNames adds the names that the API server has generated for an object, and what they become.
func addNames(names map[string]string, o *unstructured.Unstructured) {
	if name := displayName(o); name != o.GetName() {
		names[o.GetName()] = name
	}
	if o.GetKind() != "Pod" {
		return
	}
	volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumes")
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if name, _ := volume["name"].(string); tokenVolume.MatchString(name) {
			names[name] = "kube-api-access-*"
		}
	}
}

// displayName returns the name of an object, with an asterisk for what the API server has generated.
func displayName(o *unstructured.Unstructured) string {
	if prefix := o.GetGenerateName(); prefix != "" && strings.HasPrefix(o.GetName(), prefix) {
		return prefix + "*"
	}
	return o.GetName()
}

// changes returns the changes of a phase. If user is not empty, there are only objects that the user has written.
func (r *report) changes(p phase, user string) []Change {
	changes := []Change{}
	for _, f := range r.folded[p] {
		if o := f.last(); o == nil || o.GetKind() == "IPAddress" { // it follows from a Service
			continue
		}
		if user != "" && !slices.ContainsFunc(f.events, func(e *event) bool { return r.store.author(e.Record.Revision).user == user }) {
			continue
		}
		if c, ok := r.change(f); ok {
			changes = append(changes, c)
		}
	}
	return changes
}

// change returns the change of an object, or false if nothing has changed that says anything.
func (r *report) change(f *folded) (Change, bool) {
	o := f.last()
	v := &values{form: r.form, kind: canonical.Kind(o), began: r.began}
	c, ok := v.change(f)
	c.Writes = r.writes(f.events)
	first := r.store.author(f.events[0].Record.Revision).user
	c.brief = strings.HasPrefix(first, "system:") && first != r.operatorUser() && first != r.User.Name
	return c, ok
}

// change returns the change of an object without its authors.
func (v *values) change(f *folded) (Change, bool) {
	o := f.last()
	c := Change{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: displayName(o), Owner: ownerOf(o, v.form)}
	switch {
	case f.before == nil:
		c.Action, c.Object = Create, v.object(f.after)
	case f.after == nil:
		c.Action = Delete
	case f.before.GetUID() != f.after.GetUID():
		c.Action, c.Object = Replace, v.object(f.after)
	default:
		c.Action, c.Fields = Update, v.fields(f.before, f.after)
		if !slices.ContainsFunc(c.Fields, func(f Field) bool { return f.After != UnknownValue }) {
			return c, false // only times, addresses and the like
		}
	}
	return c, true
}

// ownerOf returns the controller of an object, or "".
func ownerOf(o *unstructured.Unstructured, form *canonical.Form) string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return owner.Kind + "/" + form.Text(owner.Name)
	}
	return ""
}

// writes returns the authors of events.
func (r *report) writes(events []*event) (all []Write) {
	for _, e := range events {
		next := r.write(e)
		if n := len(all); n > 0 {
			last := all[n-1]
			last.Times = 0
			if last == next {
				all[n-1].Times = max(all[n-1].Times, 1) + 1
				continue
			}
		}
		all = append(all, next)
	}
	return all
}

// write returns the author of an event.
func (r *report) write(e *event) Write {
	a := r.store.author(e.Record.Revision)
	w := Write{Verb: a.verb, User: displayUser(a.user)}
	if w.Verb == "" {
		w.Verb = map[storage.Type]string{storage.Created: "create", storage.Modified: "update", storage.Deleted: "delete"}[e.Type]
	}
	if w.User == "" {
		w.User = "API server"
	}
	w.Client = displayClient(r.audit.client(a.auditID), w.User)
	var because []string
	for _, c := range a.because.List {
		c.ResourceVersion, c.Changed = "", ""
		because = append(because, r.form.Text(c.String()))
	}
	slices.Sort(because)
	w.Because = strings.Join(slices.Compact(because), ", ")
	return w
}

// displayClient returns the name of a client, or nothing if the name says no more than the user.
func displayClient(client, user string) string {
	if client == changeAgent || client == operatorName || strings.HasSuffix(client, user) || client == "kubelet" {
		return ""
	}
	return client
}

// displayUser shortens the name of a controller of Kubernetes.
func displayUser(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "system:serviceaccount:kube-system:"), "system:")
}

// refused returns the writes that the API server has refused to others than the author of the change.
func (r *report) refused() (all []Refusal) {
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	index := map[Refusal]int{}
	for _, w := range r.audit.refused {
		e := &w.event
		if w.phase == forking || e.UserAgent == changeAgent || e.ObjectRef == nil || isOrdinary(e.ResponseStatus.Reason) {
			continue
		}
		user := displayUser(e.User.Username)
		refusal := Refusal{Write: Write{Verb: e.Verb, User: user, Client: displayClient(e.UserAgent, user)}, Object: r.objectOf(e),
			Reason: string(e.ResponseStatus.Reason), Message: r.form.Text(messageOf(e))}
		i, known := index[refusal]
		if !known {
			index[refusal] = len(all)
			all = append(all, refusal)
			continue
		}
		all[i].Times = max(all[i].Times, 1) + 1
	}
	return all
}

// suffixLength is how many characters the API server adds to a prefix.
const suffixLength = 5

// messageOf returns the message of a refused write. A name that the API server has generated ends with an asterisk.
func messageOf(e *auditv1.Event) string {
	message, details := e.ResponseStatus.Message, e.ResponseStatus.Details
	if e.Verb != "create" || e.ObjectRef.Name != "" || details == nil || len(details.Name) <= suffixLength {
		return message
	}
	return strings.ReplaceAll(message, strconv.Quote(details.Name), strconv.Quote(details.Name[:len(details.Name)-suffixLength]+"*"))
}

// objectOf names the object of a refused write.
func (r *report) objectOf(e *auditv1.Event) string {
	ref := e.ObjectRef
	name := (schema.GroupResource{Group: ref.APIGroup, Resource: ref.Resource}).String()
	if ref.Name != "" {
		name += "/" + r.form.Text(ref.Name)
	}
	if ref.Namespace != "" {
		name = ref.Namespace + " " + name
	}
	return name
}

// isOrdinary reports whether every operator gets errors with a reason, and tries again.
func isOrdinary(reason metav1.StatusReason) bool {
	switch reason {
	case metav1.StatusReasonConflict, metav1.StatusReasonAlreadyExists, metav1.StatusReasonNotFound:
		return true
	}
	return false
}

// loops returns the objects that were still changing at the end of an endless phase.
func (r *report) loops() (all []Loop) {
	for _, p := range []phase{preparing, acting} {
		if !r.endless[p] {
			continue
		}
		var last []*event
		for i := range r.events {
			if r.events[i].phase == p {
				last = append(last, &r.events[i])
			}
		}
		recent := map[string][]*event{}
		for _, e := range last[len(last)/2:] {
			recent[e.Record.Key] = append(recent[e.Record.Key], e)
		}
		for _, key := range slices.Sorted(maps.Keys(recent)) {
			if events := recent[key]; len(events) > 2 {
				all = append(all, r.loop(events))
			}
		}
	}
	return all
}

// loop describes an object that does not stop changing.
func (r *report) loop(events []*event) Loop {
	e := events[len(events)-1]
	o, err := decode(e.Record)
	if err != nil {
		return Loop{Name: e.Record.Key} // an object that cannot be decoded cannot be listed either
	}
	l := Loop{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: displayName(o), Writes: r.writes(events)}
	v := &values{form: r.form, kind: canonical.Kind(o), raw: true}
	for _, e := range slices.Backward(events) {
		if e.Prev == nil || e.Type != storage.Modified {
			continue
		}
		after, err := decode(e.Record)
		before, errBefore := decode(e.Prev)
		if err == nil && errBefore == nil {
			l.Fields = v.fields(before, after)
		}
		if len(l.Fields) > 0 {
			break
		}
	}
	return l
}

// values shows values of objects of a kind. Secrets and unknown values are texts.
type values struct {
	form  *canonical.Form
	kind  string
	began time.Time
	raw   bool // shows values that are not known
}

// fields returns the fields in which two states of an object differ.
func (v *values) fields(before, after *unstructured.Unstructured) (fields []Field) {
	for _, d := range objectdiff.Changes(withoutTrigger(before), withoutTrigger(after)) {
		if isIdentity(d.Path) || !v.raw && isSimulated(v.kind, d.At()) {
			continue
		}
		f := Field{Path: v.form.Text(d.Path), Before: d.Before, After: v.shown(d.At(), d.Value)}
		if d.Before != nil {
			f.Before = (&values{form: v.form, kind: v.kind, raw: true}).shown(d.At(), d.Before)
		}
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return fields
}

// trigger is the annotation of endpoints with the time of the last event of a pod.
const trigger = "endpoints.kubernetes.io/last-change-trigger-time"

// withoutTrigger returns an object without the annotation.
func withoutTrigger(o *unstructured.Unstructured) *unstructured.Unstructured {
	if _, ok := o.GetAnnotations()[trigger]; !ok {
		return o
	}
	o = o.DeepCopy()
	annotations := o.GetAnnotations()
	delete(annotations, trigger)
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	return o
}

// isIdentity reports whether a field says nothing to people.
func isIdentity(path string) bool {
	return path == "metadata.generation" || path == "metadata.uid" || path == "metadata.creationTimestamp"
}

// object returns the content of a new object.
func (v *values) object(o *unstructured.Unstructured) map[string]any {
	o = withoutTrigger(o).DeepCopy()
	metadata, _ := o.Object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "generateName"} {
		delete(metadata, field)
	}
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		if owner, ok := owner.(map[string]any); ok {
			delete(owner, "uid")
		}
	}
	if kept, ok := v.shown("", o.Object).(map[string]any); ok {
		return kept
	}
	return nil
}

// shown returns a value at a path, in the notation of package canonical, as the plan shows it.
func (v *values) shown(path string, value any) any {
	if value == nil {
		return nil
	}
	if isSensitive(v.kind, path) {
		return SensitiveValue
	}
	if !v.raw && isSimulated(v.kind, path) {
		return UnknownValue
	}
	switch value := value.(type) {
	case map[string]any:
		shown := make(map[string]any, len(value))
		for key, element := range value {
			next := key
			if path != "" {
				next = path + "." + key
			}
			shown[key] = v.shown(next, element)
		}
		return shown
	case []any:
		shown := make([]any, len(value))
		for i, element := range value {
			shown[i] = v.shown(fmt.Sprintf("%s[%d]", path, i), element)
		}
		return shown
	case string:
		if t, err := time.Parse(time.RFC3339, value); err == nil && !v.raw && !t.Before(v.began.Add(-time.Second)) {
			return UnknownValue // the plan's clock says nothing about the cluster's
		}
		return v.form.Text(v.form.Text(value)) // the name in place of a UID may be generated, too
	}
	return value
}

// lastApplied is where kubectl keeps the last manifest.
const lastApplied = "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration"

// isSensitive reports whether a field holds secrets.
func isSensitive(kind, path string) bool {
	if kind != "Secret" {
		return false
	}
	field, _, _ := strings.Cut(path, ".")
	return (field == "data" || field == "stringData") && path != field || path == lastApplied
}

// simulated are the fields, by kind, that something outside of the API decides, or the server at random.
var simulated = map[string][]string{
	"Pod":                            {"spec.nodeName", "status"},
	"Service":                        {"spec.clusterIP", "spec.clusterIPs", "spec.ports[*].nodePort", "spec.healthCheckNodePort"},
	"EndpointSlice.discovery.k8s.io": {"endpoints[*].addresses", "endpoints[*].nodeName"},
	"Endpoints":                      {"subsets[*].addresses", "subsets[*].notReadyAddresses"},
	"PersistentVolumeClaim":          {"spec.volumeName"},
	"PersistentVolume":               {"spec.hostPath", "spec.local", "spec.nodeAffinity"},
}

// isSimulated reports whether a field is in the table.
func isSimulated(kind, path string) bool {
	fields := simulated[kind]
	if fields == nil {
		return false
	}
	path = strings.TrimPrefix(canonical.NoiseKey("", path), " ")
	return slices.ContainsFunc(fields, func(f string) bool {
		return path == f || strings.HasPrefix(path, f+".") || strings.HasPrefix(path, f+"[")
	})
}
