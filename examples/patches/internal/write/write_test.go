package write

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
)

// ways are the ways to write, by their names.
var ways = map[string]func(context.Context, client.Client, *appsv1.Deployment, Container) error{
	"Update": Update,
	"UpdateWithRetry": func(ctx context.Context, c client.Client, d *appsv1.Deployment, wanted Container) error {
		return UpdateWithRetry(ctx, c, c, d, wanted)
	},
	"Merge":          Merge,
	"MergeWithLock":  MergeWithLock,
	"StrategicMerge": StrategicMerge,
	"JSON":           JSON,
	"Apply": func(ctx context.Context, c client.Client, d *appsv1.Deployment, wanted Container) error {
		return Apply(ctx, c, client.ObjectKeyFromObject(d), wanted, true)
	},
}

func deployment(containers ...corev1.Container) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Template.Spec.Containers = containers
	return d.DeepCopy()
}

// TestWaysAgree writes to the latest copy, for which all ways have the same result.
func TestWaysAgree(t *testing.T) {
	log, other := corev1.Container{Name: "log", Image: "log:1"}, corev1.EnvVar{Name: "OTHER", Value: "kept"}
	level := func(value string) corev1.EnvVar { return corev1.EnvVar{Name: "LEVEL", Value: value} }
	wanted := Container{Name: "app", Image: "app:2", Env: map[string]string{"LEVEL": "debug"}}
	for name, tt := range map[string]struct {
		before []corev1.Container
		wanted Container
		want   []corev1.Container
	}{
		"no container": {
			[]corev1.Container{log}, wanted,
			[]corev1.Container{log, {Name: "app", Image: "app:2", Env: []corev1.EnvVar{level("debug")}}}},
		"no variables": {
			[]corev1.Container{{Name: "app", Image: "app:1"}, log}, wanted,
			[]corev1.Container{{Name: "app", Image: "app:2", Env: []corev1.EnvVar{level("debug")}}, log}},
		"another variable": {
			[]corev1.Container{log, {Name: "app", Image: "app:1", Env: []corev1.EnvVar{other}}}, wanted,
			[]corev1.Container{log, {Name: "app", Image: "app:2", Env: []corev1.EnvVar{other, level("debug")}}}},
		"another value": {
			[]corev1.Container{{Name: "app", Image: "app:1", Env: []corev1.EnvVar{level("info"), other}}}, wanted,
			[]corev1.Container{{Name: "app", Image: "app:2", Env: []corev1.EnvVar{level("debug"), other}}}},
		"no variables wanted": {
			[]corev1.Container{{Name: "app", Image: "app:1", Env: []corev1.EnvVar{other}}}, Container{Name: "app", Image: "app:2"},
			[]corev1.Container{{Name: "app", Image: "app:2", Env: []corev1.EnvVar{other}}}},
	} {
		for way, write := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				c := fake.NewClientBuilder().WithReturnManagedFields().Build()
				d := deployment(tt.before...)
				if err := c.Create(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				key := client.ObjectKeyFromObject(d)
				if tt.wanted.IsIn(d) {
					t.Error("IsIn is true before the write")
				}
				if applied, err := tt.wanted.IsApplied(d); applied || err != nil {
					t.Errorf("IsApplied before the write: %t, %v", applied, err)
				}
				if err := write(t.Context(), c, d, tt.wanted); err != nil {
					t.Fatal(err)
				}
				d = &appsv1.Deployment{}
				if err := c.Get(t.Context(), key, d); err != nil {
					t.Fatal(err)
				}
				if difference := cmp.Diff(tt.want, d.Spec.Template.Spec.Containers); difference != "" {
					t.Errorf("-want +got:\n%s", difference)
				}
				if !tt.wanted.IsIn(d) {
					t.Error("IsIn is false after the write")
				}
				if applied, err := tt.wanted.IsApplied(d); applied != (way == "Apply") || err != nil {
					t.Errorf("IsApplied after the write: %t, %v", applied, err)
				}
			})
		}
	}
}

// TestJSONIsGuarded writes JSON patches to stale copies. The tests of the patches must fail.
func TestJSONIsGuarded(t *testing.T) {
	wanted := Container{Name: "app", Image: "app:2", Env: map[string]string{"LEVEL": "debug"}}
	app := func(env ...corev1.EnvVar) corev1.Container {
		return corev1.Container{Name: "app", Image: "app:1", Env: env}
	}
	for name, tt := range map[string]struct{ copied, current []corev1.Container }{
		"the container has moved": {[]corev1.Container{app()}, []corev1.Container{{Name: "new", Image: "new:1"}, app()}},
		"the container is gone":   {[]corev1.Container{{Name: "log", Image: "log:1"}, app()}, []corev1.Container{{Name: "log", Image: "log:1"}}},
		"there are variables now": {[]corev1.Container{app()}, []corev1.Container{app(corev1.EnvVar{Name: "OTHER"})}},
		"the variable has moved": {[]corev1.Container{app(corev1.EnvVar{Name: "LEVEL"})},
			[]corev1.Container{app(corev1.EnvVar{Name: "OTHER"}, corev1.EnvVar{Name: "LEVEL"})}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().Build()
			d := deployment(tt.copied...)
			if err := c.Create(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			copied := d.DeepCopy()
			d.Spec.Template.Spec.Containers = tt.current
			if err := c.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if err := JSON(t.Context(), c, copied, wanted); err == nil {
				t.Error("the patch was applied")
			}
			after := &appsv1.Deployment{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), after); err != nil {
				t.Fatal(err)
			}
			if after.ResourceVersion != d.ResourceVersion {
				t.Error("the Deployment was written")
			}
		})
	}
}

// TestIsFieldConflict distinguishes the conflicts of server-side apply from conflicts of versions.
func TestIsFieldConflict(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	d := deployment(corev1.Container{Name: "app", Image: "app:1"})
	if err := c.Create(t.Context(), d, client.FieldOwner("user")); err != nil {
		t.Fatal(err)
	}
	wanted := Container{Name: "app", Image: "app:2"}
	err := Apply(t.Context(), c, client.ObjectKeyFromObject(d), wanted, false)
	if !apierrors.IsConflict(err) || !IsFieldConflict(err) {
		t.Errorf("apply: %v", err)
	}
	stale := d.DeepCopy()
	if err := Update(t.Context(), c, d, wanted); err != nil {
		t.Fatal(err)
	}
	err = Update(t.Context(), c, stale, wanted)
	if !apierrors.IsConflict(err) || IsFieldConflict(err) {
		t.Errorf("update: %v", err)
	}
}
