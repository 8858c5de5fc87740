package core

import (
	"crypto/tls"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Secrets describes the kind Secret.
//
//upstream:pkg/registry/core/secret.strategy
//upstream:pkg/registry/core/secret.SelectableFields
//upstream:pkg/apis/core/v1.SetDefaults_Secret
//upstream:pkg/apis/core/v1.AddFieldLabelConversionsForSecret
//upstream:pkg/printers/internalversion.printSecret
func Secrets() kinds.Kind {
	return kinds.Of[*corev1.Secret]{
		Type: &corev1.Secret{}, List: &corev1.SecretList{},
		Plural: "secrets",
		Name:   fieldrules.NameIsSubdomain,
		Default: func(s *corev1.Secret) {
			fieldrules.DefaultValue(&s.Type, corev1.SecretTypeOpaque)
			mergeStringData(s)
		},
		Validate:       validateSecret,
		Warnings:       secretWarnings,
		ValidateUpdate: validateSecretUpdate,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Type", "string", corev1.Secret{}.SwaggerDoc()["type"]),
			columns.Column("Data", "string", corev1.Secret{}.SwaggerDoc()["data"]),
		},
		Row:    func(s *corev1.Secret) []any { return []any{string(s.Type), int64(len(s.Data))} },
		Fields: func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} },
	}
}

// mergeStringData moves the write-only field stringData to data.
//
//upstream:pkg/apis/core/v1.Convert_v1_Secret_To_core_Secret
func mergeStringData(s *corev1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for k, v := range s.StringData {
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
}

// validateSecret checks the keys and the size of the data, and the rules of the type.
//
//upstream:pkg/apis/core/validation.ValidateSecret
func validateSecret(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range fieldrules.SortedKeys(s.Data) {
		errs = append(errs, dataKey(key, &fieldrules.Root, "data")...)
		size += len(s.Data[key])
	}
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", maxData))
	}
	return append(errs, secretOfType(s)...)
}

// secretOfType checks that a secret has the keys that its type requires.
//
//upstream:pkg/apis/core/validation.ValidateSecret
func secretOfType(s *corev1.Secret) field.ErrorList {
	data := field.NewPath("data")
	must := func(keys ...string) field.ErrorList {
		var errs field.ErrorList
		for _, k := range keys {
			if _, ok := s.Data[k]; !ok {
				errs = append(errs, field.Required(data.Key(k), ""))
			}
		}
		return errs
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			return field.ErrorList{field.Required(field.NewPath("metadata",
				"annotations").Key(corev1.ServiceAccountNameKey), "")}
		}
	case corev1.SecretTypeDockercfg:
		return registryConfig(s.Data, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		return registryConfig(s.Data, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			return must(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			return field.ErrorList{field.Required(data.Key(corev1.SSHAuthPrivateKey), "")}
		}
	case corev1.SecretTypeTLS:
		return must(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return nil
}

// registryConfig checks the credentials of image registries. The error does not show the credentials.
//
//upstream:pkg/apis/core/validation.ValidateSecret
func registryConfig(data map[string][]byte, key string) field.ErrorList {
	path := field.NewPath("data").Key(key)
	config, ok := data[key]
	if !ok {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := json.Unmarshal(config, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path, "<secret contents redacted>", err.Error())}
	}
	return nil
}

// validateSecretUpdate checks that the type does not change, nor the data of an immutable secret.
//
//upstream:pkg/apis/core/validation.ValidateSecretUpdate
func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	errs := fieldrules.Immutable(s.Type, old.Type, &fieldrules.Root, "type")
	if old.Immutable == nil || !*old.Immutable {
		return errs
	}
	errs = append(errs, staysImmutable(s.Immutable)...)
	if !equality.Semantic(s.Data, old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), frozenData))
	}
	return errs
}

// secretWarnings returns a warning if the certificate and the key of a TLS secret do not match.
//
//upstream:pkg/registry/core/secret.warningsForSecret
func secretWarnings(s, _ *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
