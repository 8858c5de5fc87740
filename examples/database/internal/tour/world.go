package tour

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/reconciles"
)

// The namespace of the scenario, the name of its Database, and the names of its Secrets.
const (
	namespace    = example.Namespace
	name         = "orders"
	secretName   = "orders-credentials"
	secondSecret = "orders-credentials-2"
)

var key = client.ObjectKey{Namespace: namespace, Name: name}

// world is the state that the steps share.
type world struct {
	*example.World
	c        client.WithWatch
	service  *backup.Server
	operator *example.Operator
}

// newDatabase returns the Database of the scenario.
func newDatabase() *dbv1.Database {
	return &dbv1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: dbv1.DatabaseSpec{
			Engine: dbv1.Postgres, Version: "17.5", Replicas: 3, Storage: resource.MustParse("1Gi"), SecretName: secretName,
		},
	}
}

// read reads the Database from the API server.
func (w *world) read(ctx context.Context) (*dbv1.Database, error) {
	db := &dbv1.Database{}
	return db, w.c.Get(ctx, key, db)
}

// change patches the spec of the Database.
func (w *world) change(ctx context.Context, change func(*dbv1.DatabaseSpec)) error {
	db, err := w.read(ctx)
	if err != nil {
		return err
	}
	before := client.MergeFrom(db.DeepCopy())
	change(&db.Spec)
	return w.c.Patch(ctx, db, before)
}

// condition waits until a condition of the Database has this reason in its current generation, and
// returns its message.
func (w *world) condition(ctx context.Context, kind, reason string) (message string, err error) {
	db := newDatabase()
	err = await.Object(ctx, w.c, db, func(db *dbv1.Database) string {
		c := meta.FindStatusCondition(db.Status.Conditions, kind)
		if c == nil || c.Reason != reason || c.ObservedGeneration != db.Generation ||
			db.Status.ObservedGeneration != db.Generation {
			return fmt.Sprintf("the reason of %s is not %s: %+v", kind, reason, db.Status)
		}
		message = c.Message
		return ""
	})
	return message, err
}

// ready waits until the Database is ready with this primary, and checks that its pods are as the
// spec wants them, and that the Service selects the primary.
func (w *world) ready(ctx context.Context, primary string) error {
	db := newDatabase()
	if err := await.Object(ctx, w.c, db, func(db *dbv1.Database) string {
		if !isTrue(db, dbv1.ConditionReady) || !isTrue(db, dbv1.ConditionAvailable) || db.Status.Primary != primary ||
			db.Status.Version != db.Spec.Version || db.Status.ReadyReplicas != db.Spec.Replicas {
			return fmt.Sprintf("it is not ready with the primary %s: %+v", primary, db.Status)
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.selects(ctx, primary); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := w.c.List(ctx, pods, ofDatabase...); err != nil {
		return err
	}
	if len(pods.Items) != int(db.Spec.Replicas) {
		return fmt.Errorf("there are %d Pods, want %d", len(pods.Items), db.Spec.Replicas)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !isReady(p) || !runs(p, db.Spec.Version) || secretOf(p) != db.Spec.SecretName {
			return fmt.Errorf("the Pod %s is not ready, or not as specified", p.Name)
		}
	}
	return nil
}

// isTrue reports whether a condition is true of the generation of a Database.
func isTrue(db *dbv1.Database, kind string) bool {
	c := meta.FindStatusCondition(db.Status.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == db.Generation &&
		db.Status.ObservedGeneration == db.Generation
}

// selects waits until the Service selects an instance.
func (w *world) selects(ctx context.Context, primary string) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return await.Object(ctx, w.c, service, func(s *corev1.Service) string {
		if selected := s.Spec.Selector["statefulset.kubernetes.io/pod-name"]; selected != primary {
			return fmt.Sprintf("the Service selects %q, want %s", selected, primary)
		}
		return ""
	})
}

// countReconciles waits until n reconciles of the Database after the first ones satisfy a
// condition.
func (w *world) countReconciles(ctx context.Context, first, n int, what string,
	condition func(reconciles.Reconcile) bool) error {
	return w.Reconciles.Await(ctx, func(all []reconciles.Reconcile) string {
		count := 0
		for _, r := range all[first:] {
			if r.Object == key && condition(r) {
				count++
			}
		}
		if count < n {
			return fmt.Sprintf("there are %d reconciles %s, want %d", count, what, n)
		}
		return ""
	})
}

// causedBySecret returns a condition of reconciles: an event of a Secret is among the causes.
func causedBySecret(secret string) func(reconciles.Reconcile) bool {
	return func(r reconciles.Reconcile) bool {
		return slices.ContainsFunc(r.Causes, func(cause string) bool {
			return strings.Contains(cause, "Secret "+namespace+"/"+secret+" ")
		})
	}
}

// newSecret returns a Secret with this data.
func newSecret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
}

// setSecret sets a key of a Secret.
func (w *world) setSecret(ctx context.Context, name, key, value string) error {
	secret := &corev1.Secret{}
	if err := w.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		return err
	}
	before := client.MergeFrom(secret.DeepCopy())
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[key] = []byte(value)
	return w.c.Patch(ctx, secret, before)
}

// vault returns the snapshots in the vault of the Database; ok is whether there is one. Other
// vaults are an error.
func (w *world) vault(ctx context.Context) (snapshots map[string]backup.State, ok bool, err error) {
	db, err := w.read(ctx)
	if err != nil {
		return nil, false, err
	}
	all := w.service.Vaults()
	snapshots, ok = all[string(db.UID)]
	if len(all) > 1 || len(all) == 1 && !ok {
		err = fmt.Errorf("the backup service has the vaults %v, want that of %s", all, db.UID)
	}
	return snapshots, ok, err
}

// actions waits until there are n events about the Database with one of these reasons, and returns
// them in the order of time, such as "Promoted orders-1".
func (w *world) actions(ctx context.Context, n int, reasons ...string) ([]string, error) {
	var found []*eventsv1.Event
	err := await.Until(ctx, w.c, &eventsv1.EventList{}, func(all []*eventsv1.Event) string {
		found = slices.DeleteFunc(all, func(e *eventsv1.Event) bool {
			return e.Regarding.Name != name || !slices.Contains(reasons, e.Reason)
		})
		if len(found) < n {
			return fmt.Sprintf("there are %d events of %v, want %d", len(found), reasons, n)
		}
		return ""
	}, client.InNamespace(namespace))
	slices.SortFunc(found, func(a, b *eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var actions []string
	for _, e := range found {
		action := e.Reason
		if e.Related != nil {
			action += " " + e.Related.Name
		}
		actions = append(actions, action)
	}
	return actions, err
}

// ofDatabase selects the dependents of the Database.
var ofDatabase = []client.ListOption{
	client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/instance": name},
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp.IsZero() && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func runs(p *corev1.Pod, version string) bool {
	return p.Spec.Containers[0].Image == "postgres:"+version
}

func secretOf(p *corev1.Pod) string { return p.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef.Name }
