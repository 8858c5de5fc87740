package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// fileMode is the mode of files made from objects, 0644.
const fileMode int32 = 0o644

// tokenExpiration is the default lifetime of a projected token, in seconds.
const tokenExpiration int64 = 3600

// defaultVolume sets the defaults of a volume's source.
//
//upstream:pkg/apis/core/v1.SetDefaults_Volume
func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	if s := v.Secret; s != nil {
		fieldrules.DefaultPointer(&s.DefaultMode, fileMode)
	}
	if s := v.ConfigMap; s != nil {
		fieldrules.DefaultPointer(&s.DefaultMode, fileMode)
	}
	if s := v.DownwardAPI; s != nil {
		fieldrules.DefaultPointer(&s.DefaultMode, fileMode)
		defaultDownward(s.Items)
	}
	if s := v.Projected; s != nil {
		fieldrules.DefaultPointer(&s.DefaultMode, fileMode)
		for i := range s.Sources {
			if d := s.Sources[i].DownwardAPI; d != nil {
				defaultDownward(d.Items)
			}
			if t := s.Sources[i].ServiceAccountToken; t != nil {
				fieldrules.DefaultPointer(&t.ExpirationSeconds, tokenExpiration)
			}
		}
	}
	if s := v.HostPath; s != nil {
		fieldrules.DefaultPointer(&s.Type, corev1.HostPathUnset)
	}
	if s := v.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		defaultClaimSpec(&s.VolumeClaimTemplate.Spec)
	}
	if s := v.Image; s != nil {
		fieldrules.DefaultValue(&s.PullPolicy, pullPolicyOf(s.Reference))
	}
	defaultRemoteVolume(&v.VolumeSource)
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	fieldrules.DefaultPointer(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(s.Resources.Limits)
	RoundUp(s.Resources.Requests)
}

// defaultRemoteVolume sets the defaults of network storage.
func defaultRemoteVolume(v *corev1.VolumeSource) {
	if s := v.ISCSI; s != nil {
		fieldrules.DefaultValue(&s.ISCSIInterface, "default")
	}
	if s := v.RBD; s != nil {
		DefaultRBD(&s.RBDPool, &s.RadosUser, &s.Keyring)
	}
	if s := v.AzureDisk; s != nil {
		DefaultAzureDisk(s)
	}
	if s := v.ScaleIO; s != nil {
		DefaultScaleIO(&s.StorageMode, &s.FSType)
	}
}

// DefaultRBD sets the defaults of an rbd volume source.
func DefaultRBD(pool, user, keyring *string) {
	fieldrules.DefaultValue(pool, "rbd")
	fieldrules.DefaultValue(user, "admin")
	fieldrules.DefaultValue(keyring, "/etc/ceph/keyring")
}

// DefaultAzureDisk sets the defaults of an azureDisk volume source.
func DefaultAzureDisk(s *corev1.AzureDiskVolumeSource) {
	fieldrules.DefaultPointer(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	fieldrules.DefaultPointer(&s.Kind, corev1.AzureSharedBlobDisk)
	fieldrules.DefaultPointer(&s.FSType, "ext4")
	fieldrules.DefaultPointer(&s.ReadOnly, false)
}

// DefaultScaleIO sets the defaults of a scaleIO volume source.
func DefaultScaleIO(mode, fsType *string) {
	fieldrules.DefaultValue(mode, "ThinProvisioned")
	fieldrules.DefaultValue(fsType, "xfs")
}
