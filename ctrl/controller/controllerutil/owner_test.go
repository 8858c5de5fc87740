package controllerutil

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

func deployment(namespace string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d", UID: "d-uid"}}
}

func pod(namespace string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", OwnerReferences: owners}}
}

func owner(apiVersion, kind, name string, controller bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid"}
	if controller {
		ref.Controller = ptr.To(true)
	}
	return ref
}

func TestSetReferences(t *testing.T) {
	plain := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d-uid"}
	controlling := plain
	controlling.Controller, controlling.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	lenient := controlling
	lenient.BlockOwnerDeletion = ptr.To(false)
	stale := owner("apps/v1beta1", "Deployment", "d", true)
	other := owner("batch/v1", "Job", "j", false)
	otherController := owner("batch/v1", "Job", "j", true)

	for name, c := range map[string]struct {
		owner      metav1.Object
		pod        *corev1.Pod
		opts       []OwnerReferenceOption
		controller []metav1.OwnerReference // after SetControllerReference; nil means an error
		plain      []metav1.OwnerReference // after SetOwnerReference; nil means an error
	}{
		"none before":        {deployment("n"), pod("n"), nil, []metav1.OwnerReference{controlling}, []metav1.OwnerReference{plain}},
		"another before":     {deployment("n"), pod("n", other), nil, []metav1.OwnerReference{other, controlling}, []metav1.OwnerReference{other, plain}},
		"the same before":    {deployment("n"), pod("n", stale, other), nil, []metav1.OwnerReference{controlling, other}, []metav1.OwnerReference{plain, other}},
		"another controller": {deployment("n"), pod("n", otherController), nil, nil, []metav1.OwnerReference{otherController, plain}},
		"options": {
			deployment("n"), pod("n"), []OwnerReferenceOption{WithBlockOwnerDeletion(false)},
			[]metav1.OwnerReference{lenient}, []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d-uid", BlockOwnerDeletion: ptr.To(false)}},
		},
		"a cluster-scoped owner":     {deployment(""), pod("n"), nil, []metav1.OwnerReference{controlling}, []metav1.OwnerReference{plain}},
		"another namespace":          {deployment("m"), pod("n"), nil, nil, nil},
		"a cluster-scoped dependent": {deployment("m"), pod(""), nil, nil, nil},
		"no runtime object":          {&metav1.ObjectMeta{}, pod("n"), nil, nil, nil},
		"an unknown type":            {&unknown{}, pod("n"), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for what, set := range map[string]func(*corev1.Pod) ([]metav1.OwnerReference, error){
				"controller": func(p *corev1.Pod) ([]metav1.OwnerReference, error) {
					return c.controller, SetControllerReference(c.owner, p, scheme.Scheme, c.opts...)
				},
				"plain": func(p *corev1.Pod) ([]metav1.OwnerReference, error) {
					return c.plain, SetOwnerReference(c.owner, p, scheme.Scheme, c.opts...)
				},
			} {
				before := c.pod.DeepCopy()
				p := c.pod.DeepCopy()
				want, err := set(p)
				if want == nil {
					want = before.OwnerReferences
					if err == nil {
						t.Errorf("%s: no error", what)
					}
				} else if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if !reflect.DeepEqual(p.OwnerReferences, want) {
					t.Errorf("%s: got %+v\nwant %+v", what, p.OwnerReferences, want)
				}
			}
		})
	}

	var owned *AlreadyOwnedError
	err := SetControllerReference(deployment("n"), pod("n", otherController), scheme.Scheme)
	if !errors.As(err, &owned) || owned.Owner.Name != "j" || owned.Object.GetName() != "p" ||
		err.Error() != "Object n/p is already owned by another Job controller j" {
		t.Errorf("got %v", err)
	}
}

// unknown is an object that no scheme knows.
type unknown struct{ corev1.Pod }

func (u *unknown) DeepCopyObject() runtime.Object { return &unknown{*u.Pod.DeepCopy()} }

func TestHasAndRemove(t *testing.T) {
	d := owner("apps/v1beta1", "Deployment", "d", false)
	dc := owner("apps/v1", "Deployment", "d", true)
	j := owner("batch/v1", "Job", "j", false)
	jc := owner("batch/v1", "Job", "j", true)
	for name, c := range map[string]struct {
		refs                             []metav1.OwnerReference
		has, hasController               bool
		afterRemove, afterRemoveControls []metav1.OwnerReference // nil means an error
	}{
		"none":                      {},
		"owner, not controller":     {refs: []metav1.OwnerReference{j, d}, has: true, afterRemove: []metav1.OwnerReference{j}},
		"controller":                {refs: []metav1.OwnerReference{dc, j}, has: true, hasController: true, afterRemove: []metav1.OwnerReference{j}, afterRemoveControls: []metav1.OwnerReference{j}},
		"another is the controller": {refs: []metav1.OwnerReference{d, jc}, has: true, hasController: true, afterRemove: []metav1.OwnerReference{jc}},
		"only another":              {refs: []metav1.OwnerReference{jc}, hasController: true},
	} {
		t.Run(name, func(t *testing.T) {
			has, err := HasOwnerReference(c.refs, deployment("n"), scheme.Scheme)
			if has != c.has || err != nil || HasControllerReference(pod("n", c.refs...)) != c.hasController {
				t.Errorf("has: %v, %v; has a controller: %v", has, err, HasControllerReference(pod("n", c.refs...)))
			}
			for what, r := range map[string]struct {
				remove func(owner, object metav1.Object, scheme *runtime.Scheme) error
				want   []metav1.OwnerReference
			}{"owner": {RemoveOwnerReference, c.afterRemove}, "controller": {RemoveControllerReference, c.afterRemoveControls}} {
				p := pod("n", slices.Clone(c.refs)...)
				err := r.remove(deployment("n"), p, scheme.Scheme)
				if r.want == nil {
					r.want = c.refs
					if err == nil {
						t.Errorf("%s: no error", what)
					}
				} else if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if !slices.EqualFunc(p.OwnerReferences, r.want, func(a, b metav1.OwnerReference) bool { return reflect.DeepEqual(a, b) }) {
					t.Errorf("%s: left %+v", what, p.OwnerReferences)
				}
			}
		})
	}
}

func TestFinalizers(t *testing.T) {
	p := pod("n")
	if !AddFinalizer(p, "a") || AddFinalizer(p, "a") || !AddFinalizer(p, "b") || !ContainsFinalizer(p, "a") || ContainsFinalizer(p, "c") {
		t.Errorf("added: %v", p.Finalizers)
	}
	shared := p.Finalizers
	if !RemoveFinalizer(p, "a") || RemoveFinalizer(p, "a") || !slices.Equal(p.Finalizers, []string{"b"}) {
		t.Errorf("removed: %v", p.Finalizers)
	}
	if !slices.Equal(shared, []string{"a", "b"}) {
		t.Errorf("a slice that others may have was changed: %v", shared)
	}
}
