package pods

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestScriptOfAContainer: a name goes before an image, both before one of them, and the pod before the options.
func TestScriptOfAContainer(t *testing.T) {
	general, err := ParseScript([]byte(`
containers:
- {image: "app:*", command: [/app], files: {/app: "general", /etc/x: x}}
- {image: "*", files: {/any: any}}
- {stop: {code: 3}}
`))
	if err != nil {
		t.Fatal(err)
	}
	pod := func(script string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "app:1"}, {Name: "setup", Image: "none"}},
			Containers:     []corev1.Container{{Name: "web", Image: "app:2"}, {Name: "side", Image: "log:1"}},
		}}
		if script != "" {
			p.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{ScriptAnnotation: script}}
		}
		return p
	}
	for _, tt := range []struct {
		script, container string
		general           *Script
		files             []string
		command           string
		code              int32
	}{
		{"", "web", nil, nil, "", 0},
		{"", "web", general, []string{"/app", "/etc/x"}, "/app", 0},
		{"", "init", general, []string{"/app", "/etc/x"}, "/app", 0},
		{"", "side", general, []string{"/any"}, "", 0},
		{"containers: [{files: {/own: x}}]", "web", general, []string{"/app", "/etc/x", "/own"}, "/app", 0},
		{"containers: [{files: {/own: x}}]", "setup", general, []string{"/any"}, "", 0}, // an init container has no part in it
		{"containers: [{image: 'app:*', files: {/own: x}}]", "init", nil, []string{"/own"}, "", 0},
		{"containers: [{image: 'app:*', files: {/i: x}}, {name: web, files: {/n: x}}]", "web", nil, []string{"/n"}, "", 0},
		{"containers: [{name: web, image: 'app:2', files: {/b: x}}, {name: web, files: {/n: x}}]", "web", nil, []string{"/b"}, "", 0},
		{"containers: [{name: web, image: 'app:3', files: {/b: x}}]", "web", nil, nil, "", 0},
		{"containers: [{image: 'a*', files: {/1: x}}, {image: '*2', files: {/2: x}}]", "web", nil, []string{"/1"}, "", 0},
		{"containers: [{name: web, command: [/mine], stop: {code: 4}}]", "web", general, []string{"/app", "/etc/x"}, "/mine", 4},
	} {
		p, o := pod(tt.script), Options{Script: tt.general}
		c := &p.Spec.Containers[0]
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == tt.container }); i >= 0 {
				c = &list[i]
			}
		}
		script, err := o.scriptOf(p)
		if err != nil {
			t.Fatal(err)
		}
		s := script.container(p, c)
		if s == nil {
			s = &ContainerScript{}
		}
		command, code := "", int32(0)
		if len(s.Command) > 0 {
			command = s.Command[0]
		}
		if s.Stop != nil {
			code = s.Stop.Code
		}
		if files := slices.Sorted(maps.Keys(s.Files)); !slices.Equal(files, tt.files) || command != tt.command || code != tt.code {
			t.Errorf("%s, %s: %v %s %d", tt.script, tt.container, files, command, code)
		}
	}
	if general.Containers[0].Files["/own"] != "" {
		t.Error("the script of the options was changed")
	}
}
