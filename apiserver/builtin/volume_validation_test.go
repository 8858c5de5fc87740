package builtin

import "testing"

// TestVolumeSourceValidation checks the sources of volumes, and the mounts of those that are invalid.
func TestVolumeSourceValidation(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: x}]}}`
	invalidWhen(t, pod, map[string]change{
		"a mount of an invalid volume": {`spec: {volumes: [{name: v, secret: {}}], containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}]}`, []string{
			`spec.containers[0].volumeMounts[0].name: Not found: "v"`,
			`spec.volumes[0].secret.secretName: Required value`}},
		"a valid volume of the name of an invalid one": {`spec: {volumes: [{name: v, secret: {}}, {name: v, emptyDir: {}}], containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}]}`, []string{
			`spec.volumes[0].secret.secretName: Required value`}},
		"two of a name": {`spec: {volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}]}`, []string{
			`spec.volumes[1].name: Duplicate value: "v"`}},
		"names of two spellings": {`spec: {volumes: [{name: v, emptyDir: {}, cephfs: {}, downwardAPI: {}}, {name: w, gcePersistentDisk: {pdName: "", partition: 256}}]}`, []string{
			`spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type`,
			`spec.volumes[0].downwarAPI: Forbidden: may not specify more than 1 volume type`,
			`spec.volumes[1].persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive`,
			`spec.volumes[1].persistentDisk.pdName: Required value`}},
		"iscsi": {`spec: {volumes: [{name: v, iscsi: {targetPortal: "", iqn: x, lun: 256, chapAuthSession: true, initiatorName: iqn.x}}]}`, []string{
			`spec.volumes[0].iscsi.initiatorname: Invalid value: "iqn.x": must be valid format`,
			`spec.volumes[0].iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa`,
			`spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive`,
			`spec.volumes[0].iscsi.secretRef: Required value`,
			`spec.volumes[0].iscsi.targetPortal: Required value`}},
		"fc": {`spec: {volumes: [{name: v, fc: {}}, {name: w, fc: {targetWWNs: [a]}}]}`, []string{
			`spec.volumes[0].fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both`,
			`spec.volumes[1].fc.lun: Required value: lun is required if targetWWNs is specified`}},
		"quobyte": {`spec: {volumes: [{name: v, quobyte: {registry: x, volume: ""}}]}`, []string{
			`spec.volumes[0].quobyte.registry: Invalid value: "x": must be a host:port pair or multiple pairs separated by commas`,
			`spec.volumes[0].quobyte.volume: Required value`}},
		"flocker": {`spec: {volumes: [{name: v, flocker: {}}]}`, []string{
			`spec.volumes[0].flocker: Required value: one of datasetName and datasetUUID is required`}},
		"flexVolume": {`spec: {volumes: [{name: v, flexVolume: {driver: "", options: {a.k8s.io/x: z}}}]}`, []string{
			`spec.volumes[0].flexVolume.driver: Required value`,
			`spec.volumes[0].flexVolume.options[a.k8s.io/x]: Invalid value: "a.k8s.io/x": kubernetes.io and k8s.io namespaces are reserved`}},
		"azureDisk": {`spec: {volumes: [{name: v, azureDisk: {diskName: d, diskURI: x, cachingMode: Some}}]}`, []string{
			`spec.volumes[0].azureDisk.cachingMode: Unsupported value: "Some": supported values: "None", "ReadOnly", "ReadWrite"`,
			`spec.volumes[0].azureDisk.diskURI: Unsupported value: "x": supported values: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"`}},
		"devices": {`spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}], volumeDevices: [{name: v, devicePath: /v}, {name: "", devicePath: ../x}]}]}`, []string{
			"spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/v\": must not already exist as a path in volumeMounts",
			"spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
			"spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": must not already exist in volumeMounts",
			"spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"../x\": can not contain backsteps ('..')",
			"spec.containers[0].volumeDevices[1].name: Not found: \"\"",
			"spec.containers[0].volumeDevices[1].name: Required value",
			"spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/v\": must not already exist as a path in volumeDevices",
			"spec.containers[0].volumeMounts[0].name: Invalid value: \"v\": must not already exist in volumeDevices"}},
		"propagation": {`spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional, recursiveReadOnly: Enabled}]}]}`, []string{
			`spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers`,
			`spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified`,
			`spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true`}},
		"a variable from a file": {`spec: {volumes: [{name: v, secret: {secretName: s}}], containers: [{name: c, image: x, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: a, key: B}}}, {name: B, valueFrom: {fileKeyRef: {volumeName: w, path: a, key: B}}}]}]}`, []string{
			`spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type emptyDir`,
			`spec.containers[0].env[1].valueFrom.fileKeyRef.volumeName: Not found: "w"`}},
	})
	const volume = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: d.example.com, volumeHandle: h}}}`
	invalidWhen(t, volume, map[string]change{
		"flexVolume beside another": {`spec: {flexVolume: {driver: ""}}`, []string{
			"spec.csi: Forbidden: may not specify more than 1 volume type", "spec.flexVolume.driver: Required value"}},
		"secrets": {`spec: {csi: {nodePublishSecretRef: {name: A}}}`, []string{
			`spec.csi.nodePublishSecretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain…`,
			`spec.csi.nodePublishSecretRef.namespace: Required value`}},
		"storageos": {`spec: {csi: null, storageos: {volumeName: A, secretRef: {}}}`, []string{
			`spec.storageos.secretRef.name: Required value`, `spec.storageos.secretRef.namespace: Required value`,
			`spec.storageos.volumeName: Invalid value: "A": ` + labelMessage}},
	})
	forbiddenWhen(t, volume, map[string]change{
		"a secret for its expansion": {`spec: {csi: {controllerExpandSecretRef: {name: s, namespace: m}}}`, nil},
		"another driver":             {`spec: {csi: {driver: e.example.com}}`, []string{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ …"}},
	})
}

// TestPodClaimsAndWindowsValidation checks the validation of pods' resource claims and of fields for Windows.
func TestPodClaimsAndWindowsValidation(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {terminationGracePeriodSeconds: 1, resourceClaims: [{name: a, resourceClaimName: x}, {name: b, resourceClaimTemplateName: x}], containers: [{name: c, image: x}]}}`
	invalidWhen(t, pod, map[string]change{
		"claims": {`spec: {resourceClaims: [{name: A, resourceClaimName: a/b}, {name: a}, {name: a, resourceClaimName: x, resourceClaimTemplateName: x}]}`, []string{
			`spec.resourceClaims[0].name: Invalid value: "A": ` + labelMessage,
			`spec.resourceClaims[0].resourceClaimName: Invalid value: "a/b": a lowercase RFC 1123 subdomain…`,
			"spec.resourceClaims[1]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
			"spec.resourceClaims[2].name: Duplicate value: \"a\"",
			"spec.resourceClaims[2]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":\"x\",\"ResourceClaimTemplateName\":\"x\"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"}},
		"claims of a container": {`spec: {containers: [{name: c, image: x, resources: {claims: [{name: a, request: r}, {name: a, request: r}, {name: a}, {name: b}, {name: b, request: r}, {name: z}, {name: b, request: R}]}}]}`, []string{
			`spec.containers[0].resources.claims[1]: Duplicate value: "a/r"`,
			`spec.containers[0].resources.claims[2]: Duplicate value: "a"`,
			`spec.containers[0].resources.claims[4]: Duplicate value: "b"`,
			`spec.containers[0].resources.claims[5]: Not found: "z": must be one of the names in pod.spec.resourceClaims: a, b`,
			`spec.containers[0].resources.claims[6]: Duplicate value: "b"`}},
		"a claim of no name": {`spec: {containers: [{name: c, image: x, resources: {claims: [{name: ""}]}}]}`, []string{
			`spec.containers[0].resources.claims[0]: Required value`}},
		"host process": {`spec: {securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c, image: x}, {name: d, image: x, securityContext: {windowsOptions: {hostProcess: false}}}]}`, []string{
			"spec.containers[1].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
			"spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
			"spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers"}},
		"windows users": {`spec: {securityContext: {windowsOptions: {runAsUserName: 'a\b\c', gmsaCredentialSpec: ""}}, containers: [{name: c, image: x, securityContext: {windowsOptions: {runAsUserName: 'a\b:c'}}}]}`, []string{
			"spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"a\\\\b:c\": runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
			"spec.securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: \"\": gmsaCredentialSpec cannot be an empty string",
			"spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash"}},
		"seccomp": {`spec: {securityContext: {seccompProfile: {localhostProfile: ../x}}, containers: [{name: c, image: x, securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../x}}}]}`, []string{
			"spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: \"../x\": must not contain '..'",
			"spec.securityContext.seccompProfile.localhostProfile: Invalid value: {\"Type\":\"\",\"LocalhostProfile\":\"../x\"}: can only be set when seccomp type is Localhost",
			"spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set"}},
	})
}
