package stages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

// The kinds that the library gets as Go values. All others are unstructured.
var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

func newPod() client.Object  { return &corev1.Pod{} }
func newNode() client.Object { return &corev1.Node{} }

// evaluation bounds how long the expressions of a kind's stages may take for one object, since jq has endless ones.
const evaluation = time.Second

// library is kwok's library. It compiles a stage at its first match, so the library must not be used by two goroutines at
// once.
type library struct {
	mu       sync.Mutex
	renderer gotpl.Renderer
	object   client.Object  // of the template that is rendered
	at       pods.Addresses // of this object
}

func newLibrary() *library {
	l := &library{}
	l.renderer = gotpl.NewRenderer(l.functions())
	return l
}

// functions are the functions of templates, besides the library's own: the functions of kwok's controllers of pods and
// nodes. The functions of sprig that would read the environment or the network of this process do nothing.
func (l *library) functions() gotpl.FuncMap {
	host := func(...any) string { return l.at.Host }
	hosts := func(...any) []string { return list(l.at.Host) }
	pod := func(...any) string { return l.at.Pod }
	nothing := func(string) string { return "" }
	return gotpl.FuncMap{
		"NodeIP": host, "NodeIPs": hosts, "NodeIPWith": host, "NodeIPsWith": hosts,
		"PodIP": pod, "PodIPWith": pod, "PodIPsWith": func(...any) []string { return list(l.at.Pod) },
		"NodeName": func() string { return l.object.GetName() },
		"NodePort": func() int { return 0 },
		"env":      nothing, "expandenv": nothing, "getHostByName": nothing,
	}
}

// list returns a list with an address, if there is one.
func list(address string) []string {
	if address == "" {
		return nil
	}
	return []string{address}
}

// stage is a compiled stage.
type stage struct {
	name    string
	kind    schema.GroupVersionKind
	program *lifecycle.Stage
}

// never is a label that no object has.
const never = "flyball.dev/no-object"

// errSelector is the error of a stage that selects nothing.
var errSelector = errors.New("spec.selector: a stage without a selector has no effect")

// compile compiles a stage. The error says what does not parse.
func (l *library) compile(s *v1alpha1.Stage, kind schema.GroupVersionKind) (*stage, error) {
	internal, err := internalversion.ConvertToInternalStage(s)
	if err != nil {
		return nil, err
	}
	if internal.Spec.Selector == nil {
		return nil, errSelector
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// The library compiles a stage when it matches an object. This copy has a label that ends the match before the
	// expressions are evaluated.
	probe := internal.DeepCopy()
	probe.Spec.Selector.MatchLabels = map[string]string{never: "x"}
	if _, err := (lifecycle.Lifecycle{lifecycle.NewStage(probe)}).Match(context.Background(), &lifecycle.Event{Data: objectOf(kind)}); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	for i, step := range internal.Spec.Steps {
		var text string
		switch {
		case step.Patch != nil:
			text = step.Patch.Template
		case step.Apply != nil:
			text = step.Apply.Template
		}
		l.object = objectOf(kind)
		if _, err := l.renderer.ToText(text, map[string]any{}); err != nil && strings.HasPrefix(err.Error(), "build template: ") {
			return nil, fmt.Errorf("spec.steps[%d]: %w", i, cause(err, 1))
		}
	}
	return &stage{name: s.Name, kind: kind, program: lifecycle.NewStage(internal)}, nil
}

// cause returns the error that an error of the library wraps at a depth. The renderer appends a buffer to its errors, which may
// have the text of another object.
func cause(err error, depth int) error {
	for range depth {
		if wrapped := errors.Unwrap(err); wrapped != nil {
			err = wrapped
		}
	}
	return err
}

// stageError is the error of a stage for an object.
type stageError struct {
	stage *stage
	err   error
}

// next returns the stage of an object that is next, and its delay, or nil if none is. A stage that fails does not count, and is
// among the errors.
func (l *library) next(ctx context.Context, stages []*stage, o client.Object, now time.Time) (found *stage, delay time.Duration, failed []stageError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	event := &lifecycle.Event{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Data: o}
	program, err := match(ctx, stages, event)
	if err != nil {
		stages, failed = working(ctx, stages, event)
		program, _ = match(ctx, stages, event)
	}
	for _, s := range stages {
		if program != nil && s.program == program {
			delay, _, err := program.Delay(ctx, event, now)
			if err != nil {
				failed = append(failed, stageError{s, fmt.Errorf("spec.delay: %w", err)})
			}
			return s, max(delay, 0), failed
		}
	}
	return nil, 0, failed
}

// match returns the stage that the library selects.
func match(ctx context.Context, stages []*stage, event *lifecycle.Event) (*lifecycle.Stage, error) {
	ctx, cancel := context.WithTimeout(ctx, evaluation)
	defer cancel()
	programs := make(lifecycle.Lifecycle, len(stages))
	for i, s := range stages {
		programs[i] = s.program
	}
	program, err := programs.Match(ctx, event)
	if err == nil && ctx.Err() != nil {
		return nil, errTooLong
	}
	return program, err
}

// errTooLong is the error of an expression that does not end.
var errTooLong = fmt.Errorf("an expression takes more than %s", evaluation)

// working returns the stages that can be matched with an object, and the errors of the others.
func working(ctx context.Context, stages []*stage, event *lifecycle.Event) (good []*stage, failed []stageError) {
	for _, s := range stages {
		if _, err := match(ctx, []*stage{s}, event); err != nil {
			failed = append(failed, stageError{s, fmt.Errorf("spec: %w", err)})
			continue
		}
		good = append(good, s)
	}
	return good, failed
}

// action is a part of a step. One field is set.
type action struct {
	event  *internalversion.StageEvent
	patch  *lifecycle.Patch
	apply  *lifecycle.Apply
	remove bool
}

// actions returns the actions of a stage for an object.
func (l *library) actions(s *stage, o client.Object, a pods.Addresses) (all []action, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.object, l.at = o, a
	_, err = s.program.DoSteps(0, o.GetFinalizers(), content(o), l.renderer,
		func(e *internalversion.StageEvent) error { all = append(all, action{event: e}); return nil },
		func() error { all = append(all, action{remove: true}); return nil },
		func(p *lifecycle.Patch) error { all = append(all, action{patch: p}); return nil },
		func(a *lifecycle.Apply) error { all = append(all, action{apply: a}); return nil })
	if err != nil {
		return nil, cause(err, 2)
	}
	return all, nil
}

// content returns the data that the library gets of an object: the value of a pod or node, and the fields of any other object.
func content(o client.Object) any {
	if u, ok := o.(interface{ UnstructuredContent() map[string]any }); ok {
		return u.UnstructuredContent()
	}
	return o
}
