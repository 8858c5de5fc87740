package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// addVolumes adds the controller of volumes.
func addVolumes(mgr manager.Manager, recorder record.EventRecorder) error {
	r := &volumeReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
	return builder.ControllerManagedBy(mgr).
		Named("persistentvolume").
		For(&corev1.PersistentVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim)).
		Complete(r)
}

// volumeReconciler sets the phase of a volume, unbinds it, and reclaims a released volume.
type volumeReconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// ofClaim returns the volume that a claim names and the volumes that are reserved for the claim. A claim may be
// deleted before it names its volume.
func (r *volumeReconciler) ofClaim(ctx context.Context, obj client.Object) []reconcile.Request {
	names := sets.New(obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName)
	volumes, err := volumesFor(ctx, r.client, client.ObjectKeyFromObject(obj).String())
	if err != nil {
		return nil
	}
	for _, v := range volumes {
		names.Insert(v.Name)
	}
	var requests []reconcile.Request
	for name := range names.Delete("") {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler].
func (r *volumeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v := &corev1.PersistentVolume{}
	err := r.client.Get(ctx, req.NamespacedName, v)
	if err == nil {
		err = r.sync(ctx, v)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// sync sets the phase of a volume by its claim. The claim binds itself, so its volume may have to wait for that.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncVolume
func (r *volumeReconciler) sync(ctx context.Context, v *corev1.PersistentVolume) error {
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return setPhase(ctx, r.client, v, corev1.VolumeAvailable, "")
	}
	claim, err := r.claim(ctx, ref)
	if err != nil {
		return err
	}
	provisioned := v.Annotations[volume.ProvisionedBy] != ""
	switch {
	case claim == nil:
		return r.release(ctx, v)
	case claim.Spec.VolumeName == "":
		if !volume.SameMode(claim, v) {
			r.recorder.Eventf(v, corev1.EventTypeWarning, "VolumeMismatch",
				"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name)
			r.recorder.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch",
				"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name)
		}
		return nil
	case claim.Spec.VolumeName == v.Name:
		return setPhase(ctx, r.client, v, corev1.VolumeBound, "")
	case provisioned && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return r.release(ctx, v)
	default:
		return r.unbind(ctx, v)
	}
}

// claim returns the claim of a reference, or nil if it is gone. A live read confirms that.
func (r *volumeReconciler) claim(ctx context.Context, ref *corev1.ObjectReference) (*corev1.PersistentVolumeClaim, error) {
	for _, reader := range []client.Reader{r.client, r.live} {
		claim := &corev1.PersistentVolumeClaim{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim)
		if err == nil && claim.UID == ref.UID {
			return claim, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return nil, nil
}

// unbind makes a volume available again. A volume that a user has reserved for a claim stays reserved.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.unbindVolume
func (r *volumeReconciler) unbind(ctx context.Context, v *corev1.PersistentVolume) error {
	if _, ok := v.Annotations[volume.BoundByController]; ok {
		v.Spec.ClaimRef = nil
		delete(v.Annotations, volume.BoundByController)
	} else {
		v.Spec.ClaimRef.UID = ""
	}
	if err := r.client.Update(ctx, v); err != nil {
		return err
	}
	return setPhase(ctx, r.client, v, corev1.VolumeAvailable, "")
}

// release sets the phase of a volume without a claim, and reclaims the volume.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.reclaimVolume
func (r *volumeReconciler) release(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Status.Phase != corev1.VolumeFailed {
		if err := setPhase(ctx, r.client, v, corev1.VolumeReleased, ""); err != nil {
			return err
		}
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		return r.delete(ctx, v)
	case corev1.PersistentVolumeReclaimRecycle:
		return r.recycle(ctx, v)
	}
	return nil
}

// delete deletes a released volume, unless its provisioner does. The data of a volume does not exist.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.deleteVolumeOperation
func (r *volumeReconciler) delete(ctx context.Context, v *corev1.PersistentVolume) error {
	external, err := deleter(v)
	switch {
	case err != nil:
		return r.fail(ctx, v, "VolumeFailedDelete", err.Error())
	case external || v.DeletionTimestamp != nil:
		return nil
	}
	// The claim, the reclaim policy or the whole volume may have been replaced since it was read.
	return r.client.Delete(ctx, v, client.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion})
}

// deletable matches the paths on the node that kube-controller-manager deletes.
//
//upstream:pkg/volume/hostpath.hostPathDeleter.Delete
var deletable = regexp.MustCompile("/tmp/.+")

// deleter reports whether an external provisioner deletes a volume, or returns why nothing does.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.findDeletablePlugin
//upstream:pkg/volume.VolumePluginMgr.FindDeletablePluginBySpec
func deleter(v *corev1.PersistentVolume) (external bool, err error) {
	by, source := v.Annotations[volume.ProvisionedBy], &v.Spec.PersistentVolumeSource
	switch {
	case by != "":
		if strings.HasPrefix(by, inTree) {
			err = noPlugin(by)
		}
		return true, err
	case source.CSI != nil:
		return true, nil
	case source.HostPath != nil && deletable.MatchString(source.HostPath.Path):
		return false, nil
	case source.HostPath != nil:
		return false, fmt.Errorf("host_path deleter only supports /tmp/.+ but received provided %s", source.HostPath.Path)
	case source.NFS != nil, source.FC != nil, source.ISCSI != nil:
		err = errors.New("no deletable volume plugin matched")
	default:
		err = errors.New("no volume plugin matched")
	}
	return false, fmt.Errorf("error getting deleter volume plugin for volume %q: %w", v.Name, err)
}

// recycle makes a released volume available again if no pod uses it. The data of a volume does not exist, so no pod has to
// remove it.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.recycleVolumeOperation
func (r *volumeReconciler) recycle(ctx context.Context, v *corev1.PersistentVolume) error {
	users, err := podstate.Users(ctx, r.client, client.ObjectKey{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name})
	if err != nil {
		return err
	}
	var pods []string
	for i := range users {
		if !podstate.Finished(&users[i]) {
			pods = append(pods, client.ObjectKeyFromObject(&users[i]).String())
		}
	}
	slices.Sort(pods)
	switch {
	case len(pods) > 0:
		r.recorder.Event(v, corev1.EventTypeNormal, "VolumeFailedRecycle", "Volume is used by pods: "+strings.Join(pods, ","))
		return nil
	case v.Spec.HostPath == nil && v.Spec.NFS == nil:
		return r.fail(ctx, v, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
	r.recorder.Event(v, corev1.EventTypeNormal, "VolumeRecycled", "Volume recycled")
	return r.unbind(ctx, v)
}

// fail sets the phase Failed of a volume, with an event.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.updateVolumePhaseWithEvent
func (r *volumeReconciler) fail(ctx context.Context, v *corev1.PersistentVolume, reason, message string) error {
	if v.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	err := setPhase(ctx, r.client, v, corev1.VolumeFailed, message)
	if err == nil {
		r.recorder.Event(v, corev1.EventTypeWarning, reason, message)
	}
	return err
}

// setPhase sets the phase of a volume.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.updateVolumePhase
func setPhase(ctx context.Context, c client.Client, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) error {
	if v.Status.Phase == phase {
		return nil
	}
	v.Status.Phase, v.Status.Message = phase, message
	return c.Status().Update(ctx, v)
}
