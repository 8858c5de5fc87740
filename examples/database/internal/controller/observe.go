package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
)

// observed is the state of what belongs to a Database. Nothing in it is from its status.
type observed struct {
	// taken says which name is taken by an object of somebody else's, or is "". What has that name does
	// not count as the Database's.
	taken string
	// secret says why the Secret is not usable, or "".
	secret string
	// primary is the instance that the Service selects, or "" if there is no Service.
	primary string
	// serviceUID, headlessUID and setUID are the UIDs of the dependents, or "" for one that does not exist.
	serviceUID, headlessUID, setUID types.UID
	// set is whether there is a StatefulSet. The following fields are zero if not.
	set bool
	// generation, replicas and version are from the StatefulSet.
	generation int64
	replicas   int32
	version    string
	// current is whether the StatefulSet's controller has seen its last change.
	current bool
	// instances are the pods of the StatefulSet by ordinal.
	instances []instance
	// vault and snapshot are the states of the vault and of the snapshot for the upgrade to the
	// version of the spec, if that is needed. They are not known if backupErr is not nil.
	vault, snapshot backup.State
	backupErr       error
}

// instance is a pod of the StatefulSet.
type instance struct {
	name    string
	uid     types.UID
	ordinal int32
	// version is the version of the image.
	version string
	// outdated is whether the template of the StatefulSet has changed since the pod was created.
	outdated bool
	// ready is whether the pod is ready and not being deleted.
	ready bool
	// stopping is whether the pod is being deleted.
	stopping bool
}

// observe reads the state of what belongs to a Database.
func (r *DatabaseReconciler) observe(ctx context.Context, db *dbv1.Database) (*observed, error) {
	o := &observed{}
	if err := r.observeSecret(ctx, db, o); err != nil {
		return nil, err
	}
	service, set := &corev1.Service{}, &appsv1.StatefulSet{}
	if found, err := r.getOwned(ctx, db, o, db.Name, service); err != nil {
		return nil, err
	} else if found {
		o.primary, o.serviceUID = service.Spec.Selector[labelPod], service.UID
	}
	headless := &corev1.Service{}
	if found, err := r.getOwned(ctx, db, o, headlessOf(db), headless); err != nil {
		return nil, err
	} else if found {
		o.headlessUID = headless.UID
	}
	found, err := r.getOwned(ctx, db, o, db.Name, set)
	if err != nil {
		return nil, err
	}
	if found {
		o.set, o.setUID = true, set.UID
		o.generation = set.Generation
		o.replicas = *set.Spec.Replicas
		o.version = versionOf(&set.Spec.Template.Spec)
		o.current = set.Status.ObservedGeneration == set.Generation
		if err := r.observeInstances(ctx, db, set, o); err != nil {
			return nil, err
		}
	}
	o.vault, o.backupErr = r.Backups.Vault(ctx, vaultOf(db))
	if o.backupErr == nil && o.upgrading(db) {
		o.snapshot, o.backupErr = r.Backups.Snapshot(ctx, vaultOf(db), o.snapshotName(db))
	}
	return o, nil
}

// observeSecret looks for the password.
func (r *DatabaseReconciler) observeSecret(ctx context.Context, db *dbv1.Database, o *observed) error {
	secret := &corev1.Secret{}
	err := r.Secrets.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Spec.SecretName}, secret)
	switch {
	case apierrors.IsNotFound(err):
		o.secret = fmt.Sprintf("there is no Secret %s", db.Spec.SecretName)
	case err != nil:
		return err
	case len(secret.Data[passwordKey]) == 0:
		o.secret = fmt.Sprintf("the Secret %s has no key %s", db.Spec.SecretName, passwordKey)
	}
	return nil
}

// observeInstances lists the pods of the StatefulSet.
func (r *DatabaseReconciler) observeInstances(ctx context.Context, db *dbv1.Database, set *appsv1.StatefulSet,
	o *observed) error {
	pods := &corev1.PodList{}
	err := r.List(ctx, pods, client.InNamespace(db.Namespace), client.MatchingLabels(labelsOf(db)))
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		o.instances = append(o.instances, instance{
			name:     pod.Name,
			uid:      pod.UID,
			ordinal:  ordinalOf(pod.Name),
			version:  versionOf(&pod.Spec),
			outdated: pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision,
			ready:    pod.DeletionTimestamp.IsZero() && isReady(pod),
			stopping: !pod.DeletionTimestamp.IsZero(),
		})
	}
	slices.SortFunc(o.instances, func(a, b instance) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return nil
}

// getOwned reads an object of the Database with this name. If it is somebody else's, o.taken says so.
func (r *DatabaseReconciler) getOwned(ctx context.Context, db *dbv1.Database, o *observed, name string,
	obj client.Object) (found bool, err error) {
	err = r.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: name}, obj)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(obj, db) {
		gvk, err := r.GroupVersionKindFor(obj)
		if err != nil {
			return false, err
		}
		o.taken = fmt.Sprintf("the %s %s exists and is not controlled by the Database", gvk.Kind, name)
		return false, nil
	}
	return true, nil
}

// instance returns the instance with this name, or nil.
func (o *observed) instance(name string) *instance {
	i := slices.IndexFunc(o.instances, func(i instance) bool { return i.name == name })
	if i < 0 {
		return nil
	}
	return &o.instances[i]
}

// primaryVersion returns the version that the primary runs, and, if there is none, the version of
// the StatefulSet.
func (o *observed) primaryVersion() string {
	if primary := o.instance(o.primary); primary != nil {
		return primary.version
	}
	return o.version
}

// upgrading reports whether a snapshot is needed before the version of the StatefulSet is changed.
// When it has been changed, or the primary already runs the version, it is not.
func (o *observed) upgrading(db *dbv1.Database) bool {
	return o.set && o.version != db.Spec.Version && o.primaryVersion() != db.Spec.Version
}

// snapshotName returns the name of the snapshot for the upgrade to the version of the spec.
func (o *observed) snapshotName(db *dbv1.Database) string {
	return o.primaryVersion() + "-to-" + db.Spec.Version
}

// readyInstances returns how many instances are ready.
func (o *observed) readyInstances() int32 {
	n := int32(0)
	for _, i := range o.instances {
		if i.ready {
			n++
		}
	}
	return n
}

// ordinalOf returns the number at the end of the name of an instance.
func ordinalOf(name string) int32 {
	n, err := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 32)
	if err != nil {
		return -1 // a StatefulSet has no such pod
	}
	return int32(n)
}

// versionOf returns the version of the engine that a pod runs.
func versionOf(pod *corev1.PodSpec) string {
	for _, c := range pod.Containers {
		if c.Name == container {
			_, version, _ := strings.Cut(c.Image, ":")
			return version
		}
	}
	return ""
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
