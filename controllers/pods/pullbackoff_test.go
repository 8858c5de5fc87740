package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestPullBackOffOfAnImage: the containers of a pod share the back-off of an image, and each image has its own. Another image does not
// reset it, and ten minutes without a pull do.
func TestPullBackOffOfAnImage(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = nil
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: "web:404"}, {Name: "same", Image: "web:404"}, {Name: "other", Image: "other:404"}}
	})
	given, at, pulls := provided, now, map[string]int{}
	until := func(seconds int) {
		t.Helper()
		for end := now.Add(time.Duration(seconds) * time.Second); ; {
			s := next(p, given, &Options{}, at)
			given.pulls = s.pulls
			if s.status != nil {
				for _, e := range statusEvents(p, s.status) {
					if e.reason == "Pulling" {
						pulls[e.note]++
					}
				}
				p.Status = *s.status
				continue
			}
			if s.after <= 0 || s.after > maxRestart {
				t.Fatalf("at %v: the next step is in %v", at.Sub(now), s.after)
			}
			if at.Add(s.after).After(end) {
				at = end
				return
			}
			at = at.Add(s.after)
		}
	}
	for _, step := range []struct {
		at                  int
		image               string // from now on
		web, other, changed int    // the pulls until now
	}{
		{1, "", 1, 1, 0},
		{11, "", 2, 2, 0},
		{20, "new:404", 2, 2, 0},
		{22, "", 2, 2, 1},
		{25, "web:404", 2, 2, 1},
		{26, "", 2, 2, 1}, // it still backs off
		{31, "", 3, 3, 1},
		{71, "new:404", 4, 4, 1},
		{85, "", 4, 4, 2}, // the one before was at 20 s, and the next is at 91 s
		{100, "", 4, 4, 3},
		{750, "web:404", 4, 7, 7},
		{755, "", 5, 7, 7}, // ten minutes after 70 s it is the first one
		{765, "", 6, 7, 7},
	} {
		until(step.at)
		if web, other, image := pulls[`Pulling image "web:404"`], pulls[`Pulling image "other:404"`], pulls[`Pulling image "new:404"`]; web != step.web || other != step.other || image != step.changed {
			t.Errorf("after %d s: %d, %d and %d pulls, want %d, %d and %d", step.at, web, other, image, step.web, step.other, step.changed)
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting == nil || s.State.Waiting.Reason != imagePullBackOff {
				t.Errorf("after %d s: %s is %+v", step.at, s.Name, s.State)
			}
		}
		if step.image != "" {
			p.Spec.Containers[0].Image, p.Spec.Containers[1].Image = step.image, step.image
		}
	}
}
