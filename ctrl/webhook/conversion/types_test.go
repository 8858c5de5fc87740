package conversion_test

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/conversion"
)

// A Job has the versions v1alpha1, v1beta1 and v1, which is the hub. They differ in the name of one
// field. The value "refuse" cannot be converted to another version, and "panic" panics.
type (
	Alpha struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		RunAt             string `json:"runAt"`
	}
	Beta struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		ScheduleAt        string `json:"scheduleAt"`
	}
	Stable struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Schedule          string `json:"schedule"`
	}
)

func (j *Alpha) DeepCopyObject() runtime.Object  { c := *j; return &c }
func (j *Beta) DeepCopyObject() runtime.Object   { c := *j; return &c }
func (j *Stable) DeepCopyObject() runtime.Object { c := *j; return &c }

func (j *Stable) Hub() {}

func (j *Alpha) ConvertTo(dst conversion.Hub) error {
	return alphaToStable(j, dst.(*Stable))
}

func (j *Alpha) ConvertFrom(src conversion.Hub) error { return stableToAlpha(src.(*Stable), j) }

func (j *Beta) ConvertTo(dst conversion.Hub) error { return betaToStable(j, dst.(*Stable)) }

func (j *Beta) ConvertFrom(src conversion.Hub) error { return stableToBeta(src.(*Stable), j) }

func checked(value string) error {
	switch value {
	case "refuse":
		return errors.New("refused")
	case "panic":
		panic("on purpose")
	}
	return nil
}

func alphaToStable(src *Alpha, dst *Stable) error {
	dst.ObjectMeta, dst.Schedule = src.ObjectMeta, src.RunAt
	return checked(src.RunAt)
}

func stableToAlpha(src *Stable, dst *Alpha) error {
	dst.ObjectMeta, dst.RunAt = src.ObjectMeta, src.Schedule
	return nil
}

func betaToStable(src *Beta, dst *Stable) error {
	dst.ObjectMeta, dst.Schedule = src.ObjectMeta, src.ScheduleAt
	return checked(src.ScheduleAt)
}

func stableToBeta(src *Stable, dst *Beta) error {
	dst.ObjectMeta, dst.ScheduleAt = src.ObjectMeta, src.Schedule
	if src.Schedule == "not in beta" {
		return fmt.Errorf("%s", src.Schedule)
	}
	return nil
}

// Plain and Other can be converted to nothing.
type (
	Plain struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	Other struct{ Plain }
)

func (p *Plain) DeepCopyObject() runtime.Object { c := *p; return &c }
func (o *Other) DeepCopyObject() runtime.Object { c := *o; return &c }

var group = schema.GroupVersion{Group: "batch.example.org"}

func version(v string) schema.GroupVersion {
	return schema.GroupVersion{Group: group.Group, Version: v}
}

// newScheme returns a scheme with all versions of Job, and two of Plain.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version("v1alpha1").WithKind("Job"), &Alpha{})
	scheme.AddKnownTypeWithName(version("v1beta1").WithKind("Job"), &Beta{})
	scheme.AddKnownTypeWithName(version("v1").WithKind("Job"), &Stable{})
	scheme.AddKnownTypeWithName(version("v1").WithKind("Plain"), &Plain{})
	scheme.AddKnownTypeWithName(version("v1beta1").WithKind("Plain"), &Other{})
	return scheme
}
