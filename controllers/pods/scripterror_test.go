package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestErrorsOfScripts: the error of an annotation that is invalid has the path of the field.
func TestErrorsOfScripts(t *testing.T) {
	for script, want := range map[string]string{
		"[]": "a value of type object, not array",
		"containers: [{runs: [{steps: [{after: 1x}]}]}]":          `containers[0].runs[0].steps[0].after: time: unknown unit "x" in duration "1x"`,
		"containers: [{runs: [{steps: [{after: 5}]}]}]":           "containers[0].runs[0].steps[0].after: a value of type string, not number",
		"containers: [{runs: [{steps: [{ready: maybe}]}]}]":       "containers[0].runs[0].steps[0].ready: a value of type bool, not string",
		"containers: [{runs: [{steps: [{usage: {cpu: many}}]}]}]": "containers[0].runs[0].steps[0].usage[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
		"containers: [{}, {pull: {durations: 5s}}]":               `unknown field "containers[1].pull.durations"`,
		"containers: [{stop: [1]}]":                               "containers[0].stop: a value of type object, not array",
		"containers: [{command: sh}]":                             "containers[0].command: a value of type array, not string",
		"containers: [{stop: {code: 1.5}}]":                       "containers[0].stop.code: a value of type integer, not number 1.5",
		"general: {}":                                             `unknown field "general"`,
		"evict: {after: 1s}\n---\ncontainers: []":                 "more than one YAML document",
		"containers: [{name: c}, {name: web}]":                    `containers[1].name: the pod has no container "web"`,
		"containers: [{name: c}, {name: i}]":                      "",
		"---\ncontainers: [{name: c}]":                            "",
		"":                                                        "",
	} {
		p := pod(scripted(script))
		_, err := scriptOf(p)
		if want != "" {
			want = "metadata.annotations[flyball.dev/script]: " + want
		}
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%q: %v, want %s", script, err, want)
		}
	}
	s, err := scriptOf(pod(scripted("containers: [{name: c, stop: {code: 3}}, {name: web}]")))
	if err == nil || s == nil || s.Containers[0].Stop.Code != 3 {
		t.Errorf("the rest of a script with the name of another pod's container is %+v, %v", s, err)
	}
}

// TestScriptOfAnEphemeralContainer: whether a script with the name of a container that a pod does not have is valid is unknown, until the
// container is there.
func TestScriptOfAnEphemeralContainer(t *testing.T) {
	p := pod(scripted("containers: [{name: debug, command: [sleep, 1s]}]"))
	play := func() (corev1.PodCondition, []containerEvent) {
		given := provided
		given.script, given.invalid = scriptOf(p)
		s := statusOf(p, true, given, &Options{}, now)
		var about []containerEvent
		for _, e := range statusEvents(p, &s) {
			if e.fieldPath == "" {
				about = append(about, e)
			}
		}
		p.Status = s
		return condition(&s, ScriptValid), about
	}
	const message = `metadata.annotations[flyball.dev/script]: containers[0].name: the pod has no container "debug"`
	if c, events := play(); c.Status != corev1.ConditionUnknown || c.Reason != "UnknownContainer" || c.Message != message || len(events) != 1 ||
		events[0] != (containerEvent{"", corev1.EventTypeWarning, "UnknownContainer", message}) {
		t.Errorf("before: %+v, %v", c, events)
	}
	if c, events := play(); c.Status != corev1.ConditionUnknown || len(events) > 0 {
		t.Errorf("again: %+v, %v", c, events)
	}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"}}}
	if c, events := play(); c.Type != "" || len(events) > 0 {
		t.Errorf("with the container: %+v, %v", c, events)
	}
}
