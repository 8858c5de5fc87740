package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestCompleteResources(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"limits ask for the sum of the containers": {`
resources: {limits: {cpu: "4", memory: 1Gi}}
initContainers:
- {name: side, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
- {name: setup, resources: {requests: {cpu: "3"}}}
containers:
- {name: web, resources: {requests: {cpu: "1"}}}
`, `{limits: {cpu: "4", memory: 1Gi}, requests: {cpu: 3100m, memory: 1Gi}}`},
		"limits of all containers": {`
resources: {requests: {cpu: "3"}}
containers:
- {name: a, resources: {limits: {cpu: "1"}}}
- {name: b, resources: {limits: {cpu: "1"}}}
`, `{limits: {cpu: "3"}, requests: {cpu: "3"}}`},
		"limits of some containers": {`
resources: {requests: {cpu: "3"}}
containers:
- {name: a, resources: {limits: {cpu: "1"}}}
- {name: b}
`, `{requests: {cpu: "3"}}`},
		"huge pages": {`
resources: {requests: {cpu: "3"}}
containers:
- {name: a, resources: {limits: {hugepages-2Mi: 2Mi}}}
- {name: b, resources: {limits: {hugepages-2Mi: 4Mi}}}
`, `{limits: {hugepages-2Mi: 6Mi}, requests: {cpu: "3", hugepages-2Mi: 6Mi}}`},
		"none": {`
resources: {}
containers:
- {name: a, resources: {limits: {cpu: "1"}}}
`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			var s corev1.PodSpec
			var want corev1.ResourceRequirements
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &s); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			CompleteResources(&s)
			if d := cmp.Diff(want, *s.Resources); d != "" {
				t.Errorf("resources (-want +got):\n%s", d)
			}
		})
	}
}
