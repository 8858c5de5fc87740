package lab

import (
	"testing"
)

// TestPatchCreate: the patch of a change is for the create of its object alone.
func TestPatchCreate(t *testing.T) {
	c := &Choice{Do: Change, Object: "Order.shop.example.com default/web", Patch: []byte(`{"spec":{"size":null,"color":"red"}}`)}
	const order = `{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"web"},"spec":{"size":1}}`
	for _, tc := range []struct{ name, content, want string }{
		{"the object", order, `{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"web"},"spec":{"color":"red"}}`},
		{"another name", `{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"db"}}`, ""},
		{"another group", `{"apiVersion":"example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"web"}}`, ""},
		{"protobuf", "k8s\x00", ""},
	} {
		if got := string(c.patchCreate([]byte(tc.content))); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestUnreadyPod: a Pod is unready until its condition Ready is True.
func TestUnreadyPod(t *testing.T) {
	const ready = "status.conditions[Ready].status"
	for _, tc := range []struct {
		name  string
		state outcome
		want  bool
	}{
		{"no Pod", outcome{"PodMonitor.example.com default/web": {{}}}, false},
		{"ready", outcome{"Pod default/web": {{ready: "True"}}}, false},
		{"the second is not", outcome{"Pod default/web-*": {{ready: "True"}, {ready: "False"}}}, true},
		{"no condition", outcome{"Pod default/web": {{}}}, true},
	} {
		if got := hasUnreadyPod(tc.state); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestInVain: a change is in vain if a condition of its object, and no other one, says the same as after the creation, and not before.
func TestInVain(t *testing.T) {
	state := func(object, condition, status string) outcome {
		return outcome{object: {{"status.conditions[" + condition + "].status": status, "status.conditions[" + condition + "].reason": status}}}
	}
	const order, other = "Order.shop.example.com default/web", "Order.shop.example.com default/db"
	for _, tc := range []struct {
		name                     string
		before, changed, created outcome
		want                     bool
	}{
		{"not ready", state(order, "Ready", "True"), state(order, "Ready", "False"), state(order, "Ready", "False"), true},
		{"degraded", state(order, "Degraded", "False"), state(order, "Degraded", "True"), state(order, "Degraded", "True"), true},
		{"new condition", outcome{}, state(order, "Refused", "True"), state(order, "Refused", "True"), true},
		{"ready as before", state(order, "Ready", "True"), state(order, "Ready", "True"), state(order, "Ready", "True"), false},
		{"only after the change", state(order, "Ready", "True"), state(order, "Ready", "False"), state(order, "Ready", "True"), false},
		{"only after the creation", state(order, "Ready", "True"), state(order, "Ready", "True"), state(order, "Ready", "False"), false},
		{"another object", state(other, "Ready", "True"), state(other, "Ready", "False"), state(other, "Ready", "False"), false},
	} {
		if got := (&Choice{Object: order}).isInVain(tc.before, tc.changed, tc.created); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
