package persistentvolume

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
)

// The names of the indexes: of volumes by their claim, and of claims by the volume that they name.
const (
	byClaim  = "spec.claimRef"
	byVolume = "spec.volumeName"
)

// none is the value of volumes without a claim, and of claims without a volume. It is the name of neither.
const none = "/"

// indexed returns the value of a name that may be empty.
func indexed(name string) string { return cmp.Or(name, none) }

// addIndexes adds the indexes.
func addIndexes(indexer client.FieldIndexer) error {
	err := indexer.IndexField(context.Background(), &corev1.PersistentVolume{}, byClaim, func(o client.Object) []string {
		if ref := o.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
			return []string{client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}.String()}
		}
		return []string{none}
	})
	if err != nil {
		return err
	}
	return indexer.IndexField(context.Background(), &corev1.PersistentVolumeClaim{}, byVolume, func(o client.Object) []string {
		return []string{indexed(o.(*corev1.PersistentVolumeClaim).Spec.VolumeName)}
	})
}

// volumesFor returns the volumes with a value in the index byClaim.
func volumesFor(ctx context.Context, c client.Reader, value string) ([]corev1.PersistentVolume, error) {
	volumes := &corev1.PersistentVolumeList{}
	err := c.List(ctx, volumes, client.MatchingFields{byClaim: value})
	return volumes.Items, err
}
