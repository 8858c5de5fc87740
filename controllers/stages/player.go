package stages

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

// player plays stages. Its methods may be called from several goroutines at once, but Play only once at a time for an object.
type player struct {
	client     client.Client
	mapper     meta.RESTMapperWithContext
	recorder   record.EventRecorder
	library    *library
	catalog    *catalog
	dynamicFor func(user string) (dynamic.Interface, error)
	report     func(stage string) // enqueues a stage; its condition may have to change

	mu       sync.Mutex
	jobs     map[jobKey]*job
	onChange []func()
}

// jobKey is the key of an object.
type jobKey struct {
	kind schema.GroupVersionKind
	key  types.NamespacedName
}

// job is the next stage of an object. It is for one version of the object and of the stages of the kind.
type job struct {
	uid     types.UID
	version string
	since   int // the edition of the stages of the kind

	stage   *stage    // nil if none is next
	due     time.Time // when it is played
	actions []action  // which remain, once it has begun
	begun   bool
	done    bool

	// chain has the stages that the object went through with hardly any delay and without a change by anybody else.
	chain  []string
	result string // the version of the object after the stage
}

// The bounds of a cycle of stages: an object that goes through maxChain stages one after the other, each of them after less
// than shortDelay, is left alone.
const (
	maxChain   = 100
	shortDelay = time.Second
)

// Play implements [pods.Stages].
func (p *player) Play(ctx context.Context, o client.Object, a pods.Addresses) (played bool, after time.Duration, err error) {
	e, err := p.catalog.edition(ctx)
	if err != nil {
		return false, 0, err
	}
	kind := kindOf(o)
	stages := e.kinds[kind]
	if len(stages) == 0 {
		return false, 0, nil
	}
	for {
		j := p.job(ctx, jobKey{kind, client.ObjectKeyFromObject(o)}, e.since[kind], stages, o)
		if j.stage == nil || j.done {
			return true, 0, nil
		}
		if left := time.Until(j.due); left > 0 {
			return true, left, nil
		}
		result, err := p.perform(ctx, j, o, a)
		if err != nil || result == nil || !j.stage.program.ImmediateNextStage() {
			return true, 0, err
		}
		o = result
	}
}

// job returns the job of an object. It is a new one if the object or the stages have changed.
func (p *player) job(ctx context.Context, key jobKey, since int, stages []*stage, o client.Object) *job {
	p.mu.Lock()
	old := p.jobs[key]
	p.mu.Unlock()
	if old != nil && old.uid == o.GetUID() && old.since == since && old.version == o.GetResourceVersion() {
		return old
	}
	now := time.Now()
	j := &job{uid: o.GetUID(), version: o.GetResourceVersion(), since: since}
	next, delay, failed := p.library.next(ctx, stages, o, now)
	for _, f := range failed {
		p.fail(o, f.stage.name, reasonFailed, f.err)
	}
	j.stage, j.due = next, now.Add(delay)
	if next != nil && delay < shortDelay {
		if old != nil && old.uid == j.uid && old.since == since && old.done && old.result == j.version {
			j.chain = old.chain
		}
		if j.chain = append(j.chain, next.name); len(j.chain) > maxChain {
			p.fail(o, next.name, reasonCycle, fmt.Errorf("%s goes in circles: %s", describe(o), circle(j.chain)))
			j.done = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs[key] = j
	return j
}

// circle describes the end of a chain: the stages since the last one was played before.
func circle(chain []string) string {
	last := chain[len(chain)-1]
	text := last
	for i := len(chain) - 2; i >= 0; i-- {
		text = chain[i] + " → " + text
		if chain[i] == last {
			break
		}
	}
	return text
}

// perform plays the stage of a job. It returns the object after the stage if that has changed it.
func (p *player) perform(ctx context.Context, j *job, o client.Object, a pods.Addresses) (result client.Object, err error) {
	if !j.begun {
		actions, err := p.library.actions(j.stage, o, a)
		if err != nil {
			p.fail(o, j.stage.name, reasonFailed, err)
			j.done = true // the same object would fail again
			return nil, nil
		}
		j.actions, j.begun = actions, true
	}
	for len(j.actions) > 0 {
		changed, err := p.act(ctx, &j.actions[0], o)
		switch {
		case apierrors.IsNotFound(err) && j.actions[0].apply == nil:
			j.done = true // the object is gone
			return nil, nil
		case err != nil:
			return nil, p.refused(o, j, err)
		case changed != nil && changed.GetResourceVersion() != o.GetResourceVersion():
			result, j.result = changed, changed.GetResourceVersion()
		}
		j.actions = j.actions[1:]
	}
	j.done = true
	if p.catalog.works(j.stage.name, describe(o)) {
		p.report(j.stage.name)
	}
	return result, nil
}

// refused handles the error of a request. It returns nil if the request would fail again.
func (p *player) refused(o client.Object, j *job, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		p.fail(o, j.stage.name, reasonFailed, err)
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		j.done = true
		return nil
	}
	return err
}

// act performs an action. It returns the object if that was patched.
func (p *player) act(ctx context.Context, a *action, o client.Object) (client.Object, error) {
	switch {
	case a.event != nil:
		p.recorder.Event(o, a.event.Type, a.event.Reason, a.event.Message)
	case a.remove:
		uid := o.GetUID()
		return nil, p.client.Delete(ctx, o, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	case a.patch != nil:
		return p.patch(ctx, a.patch, o)
	case a.apply != nil:
		d, err := p.dynamicFor(userOf(a.apply.Impersonation))
		if err != nil {
			return nil, err
		}
		_, err = lifecycle.ApplyResource(ctx, d, p.client.RESTMapper(), o.GetNamespace(), a.apply)
		return nil, err
	}
	return nil, nil
}

// patch patches an object.
func (p *player) patch(ctx context.Context, patch *lifecycle.Patch, o client.Object) (client.Object, error) {
	if user := userOf(patch.Impersonation); user != "" {
		return p.patchAs(ctx, user, patch, o)
	}
	changed := o.DeepCopyObject().(client.Object)
	raw := client.RawPatch(patch.Type, patch.Data)
	var err error
	if patch.Subresource != "" {
		err = p.client.SubResource(patch.Subresource).Patch(ctx, changed, raw)
	} else {
		err = p.client.Patch(ctx, changed, raw)
	}
	return changed, err
}

// userOf returns the user that an action impersonates, or "".
func userOf(i *internalversion.ImpersonationConfig) string {
	if i == nil {
		return ""
	}
	return i.Username
}

// fail reports that a stage fails for an object, by an event of the object and of the stage, and a condition of the stage.
func (p *player) fail(o client.Object, stage, reason string, err error) {
	if p.catalog.fail(stage, reason, describe(o), fmt.Sprintf("%s: %v", describe(o), err)) {
		p.recorder.Eventf(o, corev1.EventTypeWarning, reason, "stage %s: %v", stage, err)
		p.report(stage)
	}
}

// describe returns the kind and the name of an object.
func describe(o client.Object) string {
	return kindOf(o).Kind + " " + client.ObjectKeyFromObject(o).String()
}

// kindOf returns the kind of an object.
func kindOf(o client.Object) schema.GroupVersionKind {
	switch o.(type) {
	case *corev1.Pod:
		return podKind
	case *corev1.Node:
		return nodeKind
	}
	return o.GetObjectKind().GroupVersionKind()
}

// Forget implements [pods.Stages].
func (p *player) Forget(o client.Object, key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, jobKey{kindOf(o), key})
}

// OnChange implements [pods.Stages].
func (p *player) OnChange(changed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onChange = append(p.onChange, changed)
}

// changed calls the functions of OnChange.
func (p *player) changed() {
	p.mu.Lock()
	functions := p.onChange
	p.mu.Unlock()
	for _, f := range functions {
		f()
	}
}
