package kinds

import (
	corev1 "k8s.io/api/core/v1"
)

// fileMode is the mode of files made from objects, 0644.
const fileMode int32 = 0o644

// tokenLife is how long, in seconds, a projected token lives unless the volume says otherwise.
const tokenLife int64 = 3600

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	if s := v.Secret; s != nil {
		orElse(&s.DefaultMode, fileMode)
	}
	if s := v.ConfigMap; s != nil {
		orElse(&s.DefaultMode, fileMode)
	}
	if s := v.DownwardAPI; s != nil {
		orElse(&s.DefaultMode, fileMode)
		defaultDownward(s.Items)
	}
	if s := v.Projected; s != nil {
		orElse(&s.DefaultMode, fileMode)
		for i := range s.Sources {
			if d := s.Sources[i].DownwardAPI; d != nil {
				defaultDownward(d.Items)
			}
			if t := s.Sources[i].ServiceAccountToken; t != nil {
				orElse(&t.ExpirationSeconds, tokenLife)
			}
		}
	}
	if s := v.HostPath; s != nil {
		orElse(&s.Type, corev1.HostPathUnset)
	}
	if s := v.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		defaultClaimSpec(&s.VolumeClaimTemplate.Spec)
	}
	if s := v.Image; s != nil {
		orSet(&s.PullPolicy, pullPolicyOf(s.Reference))
	}
	defaultRemoteVolume(&v.VolumeSource)
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	orElse(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
}

// defaultRemoteVolume fills in volumes that come from other systems.
func defaultRemoteVolume(v *corev1.VolumeSource) {
	if s := v.ISCSI; s != nil {
		orSet(&s.ISCSIInterface, "default")
	}
	if s := v.RBD; s != nil {
		defaultRBD(&s.RBDPool, &s.RadosUser, &s.Keyring)
	}
	if s := v.AzureDisk; s != nil {
		defaultAzureDisk(s)
	}
	if s := v.ScaleIO; s != nil {
		defaultScaleIO(&s.StorageMode, &s.FSType)
	}
}

func defaultRBD(pool, user, keyring *string) {
	orSet(pool, "rbd")
	orSet(user, "admin")
	orSet(keyring, "/etc/ceph/keyring")
}

func defaultAzureDisk(s *corev1.AzureDiskVolumeSource) {
	orElse(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	orElse(&s.Kind, corev1.AzureSharedBlobDisk)
	orElse(&s.FSType, "ext4")
	orElse(&s.ReadOnly, false)
}

func defaultScaleIO(mode, fsType *string) {
	orSet(mode, "ThinProvisioned")
	orSet(fsType, "xfs")
}
