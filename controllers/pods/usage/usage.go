// Package usage says how much of a resource the containers of pods use.
//
// The annotation [Annotation] of a pod has a script:
//
//	script = item { "," item }
//	item   = [ container "/" ] resource "=" quantity { "|" duration ":" quantity }
//
// The resource is cpu or memory. An item applies to the named container or, without a name, to all containers for which no
// other item has that name. The usage of each container is the first quantity; after a duration from the start of the
// container it is the quantity that follows the duration. So
//
//	cpu=100m|1m:900m|10m:100m,memory=64Mi,proxy/cpu=5m
//
// uses 100m of CPU for a minute, then 900m for nine minutes, then 100m again, and the container proxy always uses 5m. Spaces
// around items do not matter.
//
// The annotations kwok.x-k8s.io/usage-cpu and kwok.x-k8s.io/usage-memory of kwok have a quantity for each container. A
// container without either uses [DefaultCPU] and [DefaultMemory], as in kwok's configuration for metrics.
//
//upstream:none kwok has the annotations, and metrics-server has no scripts.
package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotation is the annotation of a pod, or of a pod template, with the script.
const Annotation = "flyball.dev/usage"

// The usage of a container without a script.
const (
	DefaultCPU    = "1m"
	DefaultMemory = "1Mi"
)

// simple are kwok's annotations, and the defaults.
var simple = []struct {
	resource   corev1.ResourceName
	annotation string
	otherwise  resource.Quantity
}{
	{corev1.ResourceCPU, "kwok.x-k8s.io/usage-cpu", resource.MustParse(DefaultCPU)},
	{corev1.ResourceMemory, "kwok.x-k8s.io/usage-memory", resource.MustParse(DefaultMemory)},
}

// Script is the usage of the containers of a pod over time.
type Script []item

// item is the usage of a resource.
type item struct {
	container string // "" for all
	resource  corev1.ResourceName
	steps     []step // in the order of their times
}

// step is the usage from a time after the start of a container on.
type step struct {
	after time.Duration
	usage resource.Quantity
}

// Parse returns the script with a text.
func Parse(text string) (Script, error) {
	var s Script
	for part := range strings.SplitSeq(text, ",") {
		i, err := parseItem(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(part), err)
		}
		if slices.ContainsFunc(s, func(other item) bool { return other.container == i.container && other.resource == i.resource }) {
			return nil, fmt.Errorf("%q: the usage is given twice", strings.TrimSpace(part))
		}
		s = append(s, i)
	}
	return s, nil
}

func parseItem(text string) (i item, err error) {
	target, values, ok := strings.Cut(text, "=")
	if !ok {
		return i, errors.New("want RESOURCE=QUANTITY")
	}
	name := target
	if container, rest, ok := strings.Cut(target, "/"); ok {
		if i.container, name = container, rest; container == "" {
			return i, errors.New("want the name of a container before /")
		}
	}
	if i.resource = corev1.ResourceName(name); name != string(corev1.ResourceCPU) && name != string(corev1.ResourceMemory) {
		return i, errors.New("the resource must be cpu or memory")
	}
	for n, value := range strings.Split(values, "|") {
		s, err := parseStep(value, n > 0)
		if err != nil {
			return i, err
		}
		if n > 0 && s.after <= i.steps[n-1].after {
			return i, errors.New("the durations must increase")
		}
		i.steps = append(i.steps, s)
	}
	return i, nil
}

// parseStep parses a quantity, with the duration before it if it is timed.
func parseStep(text string, timed bool) (s step, err error) {
	if timed {
		duration, rest, ok := strings.Cut(text, ":")
		if !ok {
			return s, errors.New("want DURATION:QUANTITY after |")
		}
		if s.after, err = time.ParseDuration(duration); err != nil {
			return s, err
		}
		text = rest
	}
	if s.usage, err = resource.ParseQuantity(text); err != nil {
		return s, fmt.Errorf("the quantity %q: %w", text, err)
	}
	if s.usage.Sign() < 0 {
		return s, fmt.Errorf("the quantity %q is negative", text)
	}
	return s, nil
}

// at returns the usage of a resource by a container at a time after its start, or false if the script does not say it.
func (s Script) at(container string, name corev1.ResourceName, after time.Duration) (usage resource.Quantity, ok bool) {
	specific := false
	for _, i := range s {
		if i.resource != name || i.container != "" && i.container != container || specific && i.container == "" {
			continue
		}
		ok, specific = true, i.container != ""
		for _, step := range i.steps {
			if step.after <= after {
				usage = step.usage
			}
		}
	}
	return usage, ok
}

// Of returns the CPU and the memory that a container of a pod uses at a time. An annotation that is not valid does not count.
// It does not matter whether the container runs.
func Of(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList {
	var script Script
	if text, ok := pod.Annotations[Annotation]; ok {
		script, _ = Parse(text)
	}
	age := now.Sub(started(pod, container))
	list := corev1.ResourceList{}
	for _, s := range simple {
		q, ok := script.at(container, s.resource, age)
		if text, annotated := pod.Annotations[s.annotation]; !ok && annotated {
			var err error
			q, err = resource.ParseQuantity(text)
			ok = err == nil && q.Sign() >= 0
		}
		if !ok {
			q = s.otherwise
		}
		list[s.resource] = q.DeepCopy()
	}
	return list
}

// started returns when a container, or else the pod, has started.
func started(pod *corev1.Pod, container string) time.Time {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if r := list[i].State.Running; list[i].Name == container && r != nil {
				return r.StartedAt.Time
			}
		}
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}
