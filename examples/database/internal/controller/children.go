package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	dbv1 "flyball.dev/examples/database/api/v1"
)

// fieldManager is the owner of the fields that the operator applies.
const fieldManager = client.FieldOwner("database-operator")

// The labels of the dependents, and the one by which the Service selects the primary, which the
// StatefulSet's controller sets.
const (
	labelName     = "app.kubernetes.io/name"
	labelInstance = "app.kubernetes.io/instance"
	labelPod      = appsv1.StatefulSetPodNameLabel
)

const (
	container   = "database" // the name of the container in the pods
	passwordKey = "password" // the key in the Secret
)

// engines are the ports and the environment variables for the password.
var engines = map[dbv1.Engine]struct {
	port     int32
	password string
}{
	dbv1.Postgres: {5432, "POSTGRES_PASSWORD"},
	dbv1.MariaDB:  {3306, "MARIADB_ROOT_PASSWORD"},
}

// vaultOf returns the name of the vault of a Database. The name of the Database could be used again
// by another one; its UID cannot.
func vaultOf(db *dbv1.Database) string { return string(db.UID) }

// headlessOf returns the name of the Service that gives each instance a name of its own.
func headlessOf(db *dbv1.Database) string { return db.Name + "-instances" }

// instanceOf returns the name of the instance with this ordinal.
func instanceOf(db *dbv1.Database, ordinal int) string { return fmt.Sprintf("%s-%d", db.Name, ordinal) }

// labelsOf returns the labels of the dependents, which also select the pods.
func labelsOf(db *dbv1.Database) map[string]string {
	return map[string]string{labelName: "database", labelInstance: db.Name}
}

// execute executes a plan. Errors of the backup service become o.backupErr.
func (r *DatabaseReconciler) execute(ctx context.Context, db *dbv1.Database, o *observed, p *plan) error {
	if err := r.backUp(ctx, db, o, p); err != nil {
		return err
	}
	if o.taken == "" && (o.set || p.apply) {
		if err := r.applyServices(ctx, db, o, p); err != nil {
			return err
		}
	}
	if p.apply {
		changed, err := r.applySet(ctx, db, o, p)
		if err != nil {
			return err
		}
		if changed { // which instances are outdated is known when its controller has seen the change
			p.stop = nil
			p.because("Updating", "the StatefulSet has been updated")
		}
	}
	return r.stop(ctx, db, p)
}

// backUp creates the vault or takes a snapshot, if that is planned. Nobody would delete a vault of a Database that is gone.
func (r *DatabaseReconciler) backUp(ctx context.Context, db *dbv1.Database, o *observed, p *plan) error {
	if p.createVault {
		if err := r.confirm(ctx, db); err != nil {
			return err
		}
		o.vault, o.backupErr = r.Backups.CreateVault(ctx, vaultOf(db))
	}
	if p.snapshot == "" {
		return nil
	}
	if _, o.backupErr = r.Backups.TakeSnapshot(ctx, vaultOf(db), p.snapshot); o.backupErr == nil {
		r.report(ctx, db, nil, corev1.EventTypeNormal, "SnapshotRequested", "Snapshot",
			"Snapshot %s is requested before the upgrade", p.snapshot)
	}
	return nil
}

// applySet applies the StatefulSet. The fields are the operator's: what others have written there
// is drift. It reports whether a StatefulSet that existed has changed.
func (r *DatabaseReconciler) applySet(ctx context.Context, db *dbv1.Database, o *observed, p *plan) (bool, error) {
	set := statefulSetFor(db, p.version, p.replicas).WithUID(o.setUID)
	if err := r.apply(ctx, db, set, o.setUID); err != nil {
		return false, err
	}
	return o.set && *set.Generation != o.generation, nil
}

// apply applies an object with the UID that was observed, or creates it if the UID is empty. So the object is neither one that somebody
// else has created with its name while the cache was behind, nor one for a Database that is gone.
func (r *DatabaseReconciler) apply(ctx context.Context, db *dbv1.Database, obj runtime.ApplyConfiguration, uid types.UID) error {
	if uid != "" {
		return r.Apply(ctx, obj, fieldManager, client.ForceOwnership)
	}
	if err := r.confirm(ctx, db); err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	return r.Create(ctx, &unstructured.Unstructured{Object: content}, fieldManager)
}

// confirm fails with a conflict, or because nothing is found, unless the Database is still as it was read: a patch that changes
// nothing. A read could come from the same old view.
func (r *DatabaseReconciler) confirm(ctx context.Context, db *dbv1.Database) error {
	return r.Patch(ctx, db.DeepCopy(), client.MergeFromWithOptions(db, client.MergeFromWithOptimisticLock{}))
}

// applyServices applies the Services, and with them the choice of the primary.
func (r *DatabaseReconciler) applyServices(ctx context.Context, db *dbv1.Database, o *observed, p *plan) error {
	if err := r.apply(ctx, db, headlessFor(db).WithUID(o.headlessUID), o.headlessUID); err != nil {
		return err
	}
	if err := r.apply(ctx, db, serviceFor(db, p.primary).WithUID(o.serviceUID), o.serviceUID); err != nil {
		return err
	}
	if o.primary == "" || o.primary == p.primary {
		return nil
	}
	kind, reason := corev1.EventTypeNormal, "Promoted"
	if p.reason == failingOver {
		kind, reason = corev1.EventTypeWarning, "FailedOver"
	}
	r.report(ctx, db, podOf(db, p.primary), kind, reason, "Promote", "%s is the primary instead of %s", p.primary, o.primary)
	return nil
}

// stop deletes the instance that is planned to be stopped, if there is one.
func (r *DatabaseReconciler) stop(ctx context.Context, db *dbv1.Database, p *plan) error {
	if p.stop == nil {
		return nil
	}
	pod := podOf(db, p.stop.name)
	// If the cache is behind, the pod with this name may already be another one.
	err := r.Delete(ctx, pod, client.Preconditions{UID: &p.stop.uid})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.report(ctx, db, pod, corev1.EventTypeNormal, "InstanceStopped", "Stop",
		"%s with version %s is stopped, to be replaced", p.stop.name, p.stop.version)
	return nil
}

// podOf returns the pod with this name, without its content.
func podOf(db *dbv1.Database, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: name}}
}

// report logs what was done and records it as an event. The other object that it is about may be
// nil. Events that differ in their text alone would become one.
func (r *DatabaseReconciler) report(ctx context.Context, db *dbv1.Database, related runtime.Object,
	kind, reason, action, format string, args ...any) {
	log.FromContext(ctx).Info(fmt.Sprintf(format, args...) + ".")
	r.Recorder.Eventf(db, related, kind, reason, action, format, args...)
}

// serviceFor returns the Service of the clients. Its selector is the primary: one write moves all
// clients from one instance to another, so there is never more than one primary.
func serviceFor(db *dbv1.Database, primary string) *corev1ac.ServiceApplyConfiguration {
	selector := labelsOf(db)
	selector[labelPod] = primary
	return corev1ac.Service(db.Name, db.Namespace).
		WithLabels(labelsOf(db)).
		WithOwnerReferences(ownedBy(db)).
		WithSpec(corev1ac.ServiceSpec().WithSelector(selector).WithPorts(portOf(db)))
}

// headlessFor returns the Service of the instances, which find each other by it before they are
// ready.
func headlessFor(db *dbv1.Database) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(headlessOf(db), db.Namespace).
		WithLabels(labelsOf(db)).
		WithOwnerReferences(ownedBy(db)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(labelsOf(db)).
			WithPorts(portOf(db)))
}

func portOf(db *dbv1.Database) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName("sql").WithPort(engines[db.Spec.Engine].port).
		WithTargetPort(intstr.FromString("sql"))
}

// statefulSetFor returns the StatefulSet. It replaces no pod by itself when its template changes:
// the operator stops them in the order that the database needs. It starts them in order, because
// each clones the data of the one before it.
func statefulSetFor(db *dbv1.Database, version string, replicas int32) *appsv1ac.StatefulSetApplyConfiguration {
	engine := engines[db.Spec.Engine]
	pod := corev1ac.PodSpec().WithContainers(corev1ac.Container().
		WithName(container).
		WithImage(string(db.Spec.Engine) + ":" + version).
		WithPorts(corev1ac.ContainerPort().WithName("sql").WithContainerPort(engine.port)).
		WithEnv(corev1ac.EnvVar().WithName(engine.password).WithValueFrom(corev1ac.EnvVarSource().
			WithSecretKeyRef(corev1ac.SecretKeySelector().WithName(db.Spec.SecretName).WithKey(passwordKey)))).
		WithVolumeMounts(corev1ac.VolumeMount().WithName("data").WithMountPath("/var/lib/data")))
	claim := corev1ac.PersistentVolumeClaim("data", "")
	claim.Namespace = nil
	claim.WithSpec(corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: db.Spec.Storage})))
	return appsv1ac.StatefulSet(db.Name, db.Namespace).
		WithLabels(labelsOf(db)).
		WithOwnerReferences(ownedBy(db)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(replicas).
			WithServiceName(headlessOf(db)).
			WithPodManagementPolicy(appsv1.OrderedReadyPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.OnDeleteStatefulSetStrategyType)).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.DeletePersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labelsOf(db))).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labelsOf(db)).WithSpec(pod)).
			WithVolumeClaimTemplates(claim))
}

// ownedBy returns the reference to the Database that controls an object.
func ownedBy(db *dbv1.Database) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(dbv1.GroupVersion.String()).
		WithKind("Database").
		WithName(db.Name).
		WithUID(db.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
