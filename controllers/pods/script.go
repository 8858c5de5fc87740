package pods

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/controllers/pods/usage"
)

// ScriptAnnotation has the [Script] of a pod, in YAML or JSON.
const ScriptAnnotation = "flyball.dev/script"

// Script says what the containers of a pod do. It goes before [OutcomeAnnotation] and the command of a container, and after
// a handler.
type Script struct {
	// Containers are the scripts of containers.
	Containers []ContainerScript `json:"containers,omitempty"`
	// Evict evicts the pod. A script of [Options] cannot evict.
	Evict *EvictScript `json:"evict,omitempty"`

	general *Script // goes after this one
}

// ContainerScript says what a container does, and what its image contains.
type ContainerScript struct {
	// Name is the name of a container, an init container or an ephemeral container.
	Name string `json:"name,omitempty"`
	// Image is a pattern of images, in which * matches any characters. A script with a name goes before a script with an image
	// alone, and the first of several patterns that match counts. Without a name and an image, the script is for all
	// containers without another one, except init and ephemeral containers.
	Image string `json:"image,omitempty"`
	// Command and Args are what a container executes that has no command, or neither a command nor arguments: the entry
	// point of the image and its arguments.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Files are files of the image, by their absolute paths. A file that begins with #!/bin/sh is a program: the shell
	// executes it as the command of the container, for kubectl exec, for probes and for hooks.
	Files map[string]string `json:"files,omitempty"`
	// Pull is the pull of the image.
	Pull *PullScript `json:"pull,omitempty"`
	// Runs are the runs of the container, from its start or restart to its end. The last one is repeated. Without runs, the
	// container does what it does without a script.
	Runs []RunScript `json:"runs,omitempty"`
	// Stop is how the container ends when its pod is deleted, evicted or overdue, when it restarts because its image is changed or
	// for a resize, and how a sidecar or an ephemeral container ends after the other containers. Without it, the container ends
	// at once, with the exit code 143.
	Stop *StopScript `json:"stop,omitempty"`
}

// PullScript is the pull of an image. The container waits for it before its first run.
type PullScript struct {
	// Duration and Jitter are the time that the pull takes.
	Duration metav1.Duration `json:"duration,omitempty"`
	Jitter   metav1.Duration `json:"jitter,omitempty"`
	// Failures is the number of pulls that fail before, with a back-off from 10 s to 5 min. If it is negative, all fail.
	Failures int32 `json:"failures,omitempty"`
	// Message is the error of a failed pull. By default the image is not found.
	Message string `json:"message,omitempty"`
}

// RunScript is one run of a container. The container is ready from its start, or from the first step that says so.
type RunScript struct {
	Steps []Step `json:"steps,omitempty"`
}

// Step is a change of a container that runs.
type Step struct {
	// After is the time since the step before, or since the start. Up to Jitter is added, depending on the UID of the pod.
	After  metav1.Duration `json:"after,omitempty"`
	Jitter metav1.Duration `json:"jitter,omitempty"`
	// Ready makes the container ready, or unready.
	Ready *bool `json:"ready,omitempty"`
	// Log is written to the log of the container.
	Log string `json:"log,omitempty"`
	// Usage is the CPU and the memory that the container uses from now on, for metrics.k8s.io. It goes before the annotations
	// of package usage.
	Usage corev1.ResourceList `json:"usage,omitempty"`
	// Exit ends the run. It is the last step.
	Exit *ExitScript `json:"exit,omitempty"`
}

// ExitScript is the end of a run.
type ExitScript struct {
	// Code is the exit code, from 0 to 255.
	Code int32 `json:"code,omitempty"`
	// Reason is the reason: by default Completed or Error. With OOMKilled the default of the code is 137.
	Reason string `json:"reason,omitempty"`
	// Message is the termination message.
	Message string `json:"message,omitempty"`
}

// StopScript is the end of a container after SIGTERM. At the end of the grace period it is killed, with the exit code
// 137.
type StopScript struct {
	After metav1.Duration `json:"after,omitempty"`
	Code  int32           `json:"code,omitempty"`
}

// EvictScript is the eviction of a pod, some time after its start. It is kubelet's for a hard threshold: the containers have two
// seconds to stop, whatever the grace period of the pod is.
type EvictScript struct {
	After  metav1.Duration `json:"after,omitempty"`
	Jitter metav1.Duration `json:"jitter,omitempty"`
	// Reason is the reason of the pod, by default Evicted.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// The bounds of scripts.
const (
	maxSteps     = 1000 // of a run
	maxRuns      = 100
	maxFiles     = 1000 // of a container
	maxFileBytes = 1 << 20
)

// oomKilled is the reason of a container that was killed for its memory.
const oomKilled = "OOMKilled"

// parseScript parses a script. It returns an error with the path of the field if the script is invalid.
func parseScript(text string) (*Script, error) {
	s := &Script{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		return nil, fieldError(text, errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: ")))
	}
	if documents(text) > 1 {
		return nil, errors.New("more than one YAML document")
	}
	return s, s.validate()
}

// ParseScript parses a script for [Options], in YAML or JSON. It returns an error with the path of the field if the script is
// invalid.
func ParseScript(text []byte) (*Script, error) {
	s, err := parseScript(string(text))
	if err == nil && s.Evict != nil {
		err = errors.New("evict: only the script of a pod can evict")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// validate returns the first error of a script.
func (s *Script) validate() error {
	type key struct{ name, image string }
	seen := map[key]bool{}
	for i := range s.Containers {
		c := &s.Containers[i]
		path := fmt.Sprintf("containers[%d]", i)
		k := key{c.Name, c.Image}
		switch {
		case seen[k] && c.Image != "":
			return fmt.Errorf("%s.image: %q has a script before", path, c.Image)
		case seen[k]:
			return fmt.Errorf("%s.name: %q has a script before", path, c.Name)
		}
		seen[k] = true
		if err := c.validate(path); err != nil {
			return err
		}
	}
	if e := s.Evict; e != nil {
		return errors.Join(notNegative("evict.after", e.After), notNegative("evict.jitter", e.Jitter))
	}
	return nil
}

func notNegative(path string, d metav1.Duration) error {
	if d.Duration < 0 {
		return fmt.Errorf("%s: %s is negative", path, d.Duration)
	}
	return nil
}

func exitCode(path string, code int32) error {
	if code < 0 || code > 255 {
		return fmt.Errorf("%s: %d is not an exit code", path, code)
	}
	return nil
}

// validate returns the first error of a script.
func (c *ContainerScript) validate(path string) error {
	if p := c.Pull; p != nil {
		if err := errors.Join(notNegative(path+".pull.duration", p.Duration), notNegative(path+".pull.jitter", p.Jitter)); err != nil {
			return err
		}
	}
	if s := c.Stop; s != nil {
		if err := errors.Join(notNegative(path+".stop.after", s.After), exitCode(path+".stop.code", s.Code)); err != nil {
			return err
		}
	}
	if err := c.validateFiles(path); err != nil {
		return err
	}
	if len(c.Runs) > maxRuns {
		return fmt.Errorf("%s.runs: more than %d", path, maxRuns)
	}
	for i := range c.Runs {
		steps := c.Runs[i].Steps
		if len(steps) > maxSteps {
			return fmt.Errorf("%s.runs[%d].steps: more than %d", path, i, maxSteps)
		}
		for j := range steps {
			at := fmt.Sprintf("%s.runs[%d].steps[%d]", path, i, j)
			if err := steps[j].validate(at, j == len(steps)-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateFiles returns the first error of the files.
func (c *ContainerScript) validateFiles(at string) error {
	if len(c.Files) > maxFiles {
		return fmt.Errorf("%s.files: more than %d", at, maxFiles)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if !pathpkg.IsAbs(name) || pathpkg.Clean(name) != name || name == "/" {
			return fmt.Errorf("%s.files: %q is not the absolute path of a file", at, name)
		}
		for folder := pathpkg.Dir(name); folder != "/"; folder = pathpkg.Dir(folder) {
			if _, ok := c.Files[folder]; ok {
				return fmt.Errorf("%s.files: %q is below the file %q", at, name, folder)
			}
		}
		size += len(c.Files[name])
	}
	if size > maxFileBytes {
		return fmt.Errorf("%s.files: %d bytes, more than %d", at, size, maxFileBytes)
	}
	return nil
}

func (s *Step) validate(path string, last bool) error {
	if err := errors.Join(notNegative(path+".after", s.After), notNegative(path+".jitter", s.Jitter)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Usage)) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return fmt.Errorf("%s.usage: %q is neither cpu nor memory", path, name)
		}
		if q := s.Usage[name]; q.Sign() < 0 {
			return fmt.Errorf("%s.usage.%s: %s is negative", path, name, q.String())
		}
	}
	if s.Exit == nil {
		return nil
	}
	if !last {
		return fmt.Errorf("%s.exit: steps follow", path)
	}
	if s.Exit.Reason == oomKilled && s.Exit.Code == 0 {
		s.Exit.Code = 137
	}
	return exitCode(path+".exit.code", s.Exit.Code)
}

// scripts has the scripts that were parsed last. Most pods share the script of their template.
var scripts struct {
	mu     sync.Mutex
	parsed map[string]*parsedScript
}

// parsedScript is a script, or the error in it.
type parsedScript struct {
	script *Script
	err    error
}

// maxScripts is the number of scripts that are kept.
const maxScripts = 256

// scriptOf returns the script of a pod, or nil, and the error of an annotation that is invalid.
func scriptOf(pod *corev1.Pod) (*Script, error) {
	text, ok := pod.Annotations[ScriptAnnotation]
	if !ok {
		return nil, outcomeError(pod)
	}
	scripts.mu.Lock()
	defer scripts.mu.Unlock()
	p := scripts.parsed[text]
	if p == nil {
		p = &parsedScript{}
		if p.script, p.err = parseScript(text); p.err != nil {
			p.script, p.err = nil, fmt.Errorf("metadata.annotations[%s]: %w", ScriptAnnotation, p.err)
		}
		if len(scripts.parsed) >= maxScripts || scripts.parsed == nil {
			scripts.parsed = map[string]*parsedScript{}
		}
		scripts.parsed[text] = p
	}
	if err := errors.Join(p.err, outcomeError(pod)); err != nil {
		return p.script, err
	}
	// The name of a container matters only if all else is valid: the condition is Unknown then, not False.
	return p.script, nameError(pod, p.script)
}

// outcomeError returns the error of an annotation with an invalid outcome.
func outcomeError(pod *corev1.Pod) error {
	invalid := func(name, why string) error {
		return fmt.Errorf("metadata.annotations[%s]: %q %s", name, pod.Annotations[name], why)
	}
	var errs []error
	switch pod.Annotations[OutcomeAnnotation] {
	case "", Running, NeverReady, Succeeded, Failed:
	default:
		errs = append(errs, invalid(OutcomeAnnotation, "is not Running, NeverReady, Succeeded or Failed"))
	}
	if text, ok := pod.Annotations[DurationAnnotation]; ok {
		if d, err := time.ParseDuration(text); err != nil || d < 0 {
			errs = append(errs, invalid(DurationAnnotation, "is not a duration"))
		}
	}
	if text, ok := pod.Annotations[ExitCodeAnnotation]; ok {
		if code, err := strconv.ParseUint(text, 10, 8); err != nil || code == 0 {
			errs = append(errs, invalid(ExitCodeAnnotation, "is not an exit code from 1 to 255"))
		}
	}
	return errors.Join(errs...)
}

// scriptOf returns the script of a pod with the script of the options after it, or nil, and the error of an annotation that is
// invalid.
func (o *Options) scriptOf(pod *corev1.Pod) (*Script, error) {
	own, err := scriptOf(pod)
	switch {
	case o.Script == nil:
		return own, err
	case own == nil:
		return o.Script, err
	}
	return &Script{Containers: own.Containers, Evict: own.Evict, general: o.Script}, err
}

// container returns the script of a container of a pod, or nil. It is shared, and not changed.
func (s *Script) container(pod *corev1.Pod, c *corev1.Container) *ContainerScript {
	if s == nil {
		return nil
	}
	own, general := s.find(pod, c), s.general.container(pod, c)
	if own == nil || general == nil {
		return cmp.Or(own, general)
	}
	both := *own
	if both.Pull == nil {
		both.Pull = general.Pull
	}
	if len(both.Runs) == 0 {
		both.Runs = general.Runs
	}
	if both.Stop == nil {
		both.Stop = general.Stop
	}
	if len(both.Command)+len(both.Args) == 0 {
		both.Command, both.Args = general.Command, general.Args
	}
	both.Files = maps.Clone(general.Files)
	if both.Files == nil {
		both.Files = own.Files
	} else {
		maps.Copy(both.Files, own.Files)
	}
	return &both
}

// find returns the script of a container without the scripts after this one, or nil.
func (s *Script) find(pod *corev1.Pod, container *corev1.Container) (found *ContainerScript) {
	best := 0
	for i := range s.Containers {
		c := &s.Containers[i]
		rank := 1
		switch {
		case c.Name != "" && c.Name != container.Name, c.Image != "" && !runtime.Match(c.Image, container.Image):
			continue
		case c.Name != "" && c.Image != "":
			rank = 4
		case c.Name != "":
			rank = 3
		case c.Image != "":
			rank = 2
		case !isMain(pod, container.Name):
			continue
		}
		if rank > best {
			found, best = c, rank
		}
	}
	return found
}

// image returns what a script says of the image of a container.
func (o *Options) image(pod *corev1.Pod, c *corev1.Container) sandbox.Image {
	s, _ := o.scriptOf(pod)
	script := s.container(pod, c)
	if script == nil {
		return sandbox.Image{}
	}
	return sandbox.Image{Command: script.Command, Args: script.Args, Files: script.Files}
}

// jittered returns a duration with a part of the jitter, which depends on the UID of the pod and on what the duration is
// for.
func jittered(pod *corev1.Pod, d, jitter metav1.Duration, what ...string) time.Duration {
	if jitter.Duration <= 0 {
		return d.Duration
	}
	h := fnv.New64a()
	h.Write([]byte(pod.UID))
	for _, w := range what {
		h.Write([]byte{0})
		h.Write([]byte(w))
	}
	return d.Duration + time.Duration(h.Sum64()%uint64(jitter.Duration))
}

// timedStep is a step with its time since the start of the run.
type timedStep struct {
	*Step
	at time.Duration
}

// run returns the steps of a run with their times.
func (c *ContainerScript) run(pod *corev1.Pod, container string, number int32) []timedStep {
	i := min(int(number), len(c.Runs)-1)
	steps := make([]timedStep, len(c.Runs[i].Steps))
	at := time.Duration(0)
	for j := range steps {
		s := &c.Runs[i].Steps[j]
		at += jittered(pod, s.After, s.Jitter, container, strconv.Itoa(int(number)), strconv.Itoa(j))
		steps[j] = timedStep{s, at}
	}
	return steps
}

// point returns the state of a scripted run at a time.
func scriptedPoint(steps []timedStep, startedAt, now time.Time) point {
	p := point{started: true, ready: true}
	for _, s := range steps {
		if s.Ready != nil {
			p.ready = !*s.Ready // until the first step that says so
			break
		}
	}
	since := now.Sub(startedAt)
	for _, s := range steps {
		if s.at > since {
			p.next = s.at - since
			return p
		}
		if s.Ready != nil {
			p.ready = *s.Ready
		}
		if s.Exit != nil {
			p.end = &runEnd{exitCode: s.Exit.Code, reason: s.Exit.Reason, message: s.Exit.Message, at: startedAt.Add(s.at)}
		}
	}
	return p
}

// UsageOf returns the CPU and the memory that a container of a pod uses at a time: by its script, or else as [usage.Of].
func UsageOf(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList {
	return (&Options{}).UsageOf(pod, container, now)
}

// UsageOf returns what a container uses as the function UsageOf does, by the script of the options too.
func (o *Options) UsageOf(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList {
	list := usage.Of(pod, container, now)
	spec := podstate.Container(&pod.Spec, container)
	if spec == nil {
		return list
	}
	script, _ := o.scriptOf(pod)
	c := script.container(pod, spec)
	status := find(pod.Status.ContainerStatuses, container)
	if status.Name == "" {
		status = find(pod.Status.InitContainerStatuses, container)
	}
	if c == nil || len(c.Runs) == 0 || status.State.Running == nil {
		return list
	}
	for _, step := range c.run(pod, container, sandbox.NumberOf(status.ContainerID)) {
		if step.at > now.Sub(status.State.Running.StartedAt.Time) {
			break
		}
		maps.Copy(list, step.Usage)
	}
	return list
}

// isMain reports whether a container is neither an init container nor an ephemeral one.
func isMain(pod *corev1.Pod, container string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			return true
		}
	}
	return false
}
