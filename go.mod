module flyball.dev

go 1.26.0

require (
	github.com/NYTimes/gziphandler v1.1.1 // compressed OpenAPI documents, as upstream serves them
	github.com/evanphx/json-patch/v5 v5.9.11 // merge patches, as in controller-runtime's client.MergeFrom
	github.com/fsnotify/fsnotify v1.9.0 // certificates that are replaced, reloaded at once; the source that flyball generate --watch and flyball dev watch
	github.com/go-logr/logr v1.4.4 // the logging interface that operators use
	github.com/go-logr/zapr v1.3.0 // the backend of ctrl/log/zap
	github.com/gobuffalo/flect v1.0.3 // the plurals that controller-gen assumes
	github.com/google/cel-go v0.29.2 // CEL of policies and of device selectors, as in k8s.io/apiserver
	github.com/google/go-cmp v0.7.0 // tests, and the matchers of ctrl/envtest/komega
	github.com/google/uuid v1.6.0 // reconcile IDs
	github.com/klauspost/compress v1.20.1 // zstd of recordings: a fifth of the CPU time of the standard library's compression, and a window over thousands of changes
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // negotiated OpenAPI documents, as upstream serves them
	github.com/onsi/gomega v1.44.0 // part of the API of ctrl/envtest/komega, which alone imports it; with pruned module graphs, others do not download it
	github.com/prometheus/client_golang v1.25.0 // metrics, as controller-runtime exposes them
	github.com/prometheus/client_model v0.6.3 // tests read metrics
	github.com/robfig/cron/v3 v3.0.1 // schedules of CronJobs, also across changes of the clock, by the library of kube-controller-manager; it has no dependencies
	github.com/spf13/cobra v1.10.2 // the command line
	github.com/spf13/pflag v1.0.10 // the command line
	go.etcd.io/bbolt v1.5.0 // the format of etcd's database, for etcdctl snapshot save; imported by storage/etcdserver only
	go.etcd.io/etcd/api/v3 v3.7.3 // the messages of etcd's API
	go.etcd.io/etcd/client/v3 v3.7.3 // the storage in an etcd cluster
	go.opentelemetry.io/otel v1.45.0 // spans of reconciles and requests; k8s.io/apiserver brings it along
	go.opentelemetry.io/otel/sdk v1.45.0 // the spans of the examples, and tests
	go.opentelemetry.io/otel/trace v1.45.0 // spans
	go.uber.org/goleak v1.3.0 // tests
	go.uber.org/zap v1.27.1 // the backend that ctrl/log/zap is named after
	go.yaml.in/yaml/v3 v3.0.5 // PROJECT files, with the lines of errors
	golang.org/x/mod v0.42.0 // go.mod files of projects
	golang.org/x/net v0.61.0 // its package proxy: WebSockets of client-go stay in the process
	golang.org/x/sync v0.24.0 // groups of goroutines
	golang.org/x/sys v0.49.0 // mount namespaces of flyball run; terminals for the tests of flyball
	golang.org/x/term v0.47.0 // the detection of terminals
	golang.org/x/time v0.15.0 // rate limits
	golang.org/x/tools v0.52.0 // the analyzers of flyball vet; the packages of flyball generate
	gomodules.xyz/jsonpatch/v2 v2.4.0 // patches of mutating webhooks: part of controller-runtime's API, as this release: a later one takes 1 and 1.0 for different
	google.golang.org/grpc v1.83.2 // etcd's API
	google.golang.org/protobuf v1.36.12 // etcd's API
	gopkg.in/evanphx/json-patch.v4 v4.13.0 // JSON patches, as in k8s.io/apiserver
	gopkg.in/inf.v0 v0.9.1 // the type of the decimals in quantities, for packed objects; apimachinery brings it along
	k8s.io/api v0.37.2 // the types of Kubernetes
	k8s.io/apiextensions-apiserver v0.37.2 // CustomResourceDefinitions, by the code that defines them
	k8s.io/apimachinery v0.37.2 // the semantics of Kubernetes, by the code that defines them
	k8s.io/apiserver v0.37.2 // handlers, registry, admission and audit, by the code that defines them
	k8s.io/client-go v0.37.2 // requests to API servers; its interfaces are part of controller-runtime's API
	k8s.io/component-base v0.37.2 // feature gates and metrics of these libraries
	k8s.io/klog/v2 v2.140.0 // the log of these libraries
	k8s.io/kms v0.37.2 // tests of KMS plugins
	k8s.io/kube-aggregator v0.37.2 // the types of APIServices
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // OpenAPI documents and schemas
	k8s.io/metrics v0.37.2 // the types of the metrics APIs, and the clients by which autoscalers read them
	k8s.io/pod-security-admission v0.37.2 // the checks of the Pod Security Standards, by the code that defines them
	k8s.io/streaming v0.37.2 // SPDY and WebSockets of exec, attach and port-forward
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // part of these libraries
	mvdan.cc/sh/v3 v3.14.1 // the parser and the expansion of words of controllers/pods/shell: packages that import only the standard library; its interpreter uses the host; programs with a control plane link it
	sigs.k8s.io/controller-tools v0.23.0 // the generators of flyball generate; imported by cmd/flyball only
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // decoders of apimachinery
	sigs.k8s.io/kustomize/api v0.21.1 // the kustomizations of a project, for flyball dev and its Helm chart; imported by cmd/flyball only
	sigs.k8s.io/kustomize/kyaml v0.21.1 // see kustomize/api
	sigs.k8s.io/kwok v0.8.0 // selects and renders kwok's stages, and has their kind; brings sprig, gojq and easycel along; imported by controllers/stages only
	sigs.k8s.io/randfill v1.0.0 // tests
	sigs.k8s.io/structured-merge-diff/v6 v6.4.2 // managed fields and server-side apply, by the code that defines them
	sigs.k8s.io/yaml v1.6.0 // YAML as Kubernetes reads it
)

require (
	cel.dev/expr v0.25.2 // indirect
	dario.cat/mergo v1.0.1 // indirect
	github.com/Masterminds/goutils v1.1.1 // indirect
	github.com/Masterminds/semver/v3 v3.5.0 // indirect
	github.com/Masterminds/sprig/v3 v3.3.0 // indirect
	github.com/antlr4-go/antlr/v4 v4.13.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/blang/semver/v4 v4.0.0 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/emicklei/go-restful/v3 v3.13.0 // indirect
	github.com/fatih/color v1.19.0 // indirect
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/fxamacker/cbor/v2 v2.9.1 // indirect
	github.com/go-errors/errors v1.5.1 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-openapi/jsonpointer v1.0.0 // indirect
	github.com/go-openapi/jsonreference v1.0.0 // indirect
	github.com/go-openapi/swag v0.27.1 // indirect
	github.com/go-openapi/swag/cmdutils v0.27.1 // indirect
	github.com/go-openapi/swag/conv v0.27.1 // indirect
	github.com/go-openapi/swag/fileutils v0.27.1 // indirect
	github.com/go-openapi/swag/jsonutils v0.27.1 // indirect
	github.com/go-openapi/swag/loading v0.27.1 // indirect
	github.com/go-openapi/swag/mangling v0.27.1 // indirect
	github.com/go-openapi/swag/netutils v0.27.1 // indirect
	github.com/go-openapi/swag/pools v0.27.1 // indirect
	github.com/go-openapi/swag/stringutils v0.27.1 // indirect
	github.com/go-openapi/swag/typeutils v0.27.1 // indirect
	github.com/go-openapi/swag/yamlutils v0.27.1 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/gnostic-models v0.7.1 // indirect
	github.com/gorilla/websocket v1.5.4-0.20250319132907-e064f32e3674 // indirect
	github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus v1.1.0 // indirect
	github.com/grpc-ecosystem/go-grpc-middleware/v2 v2.3.3 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/huandu/xstrings v1.5.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/itchyny/gojq v0.12.19 // indirect
	github.com/itchyny/timefmt-go v0.1.8 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/mitchellh/copystructure v1.2.0 // indirect
	github.com/mitchellh/reflectwalk v1.0.2 // indirect
	github.com/moby/spdystream v0.5.1 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/monochromegane/go-gitignore v0.0.0-20200626010858-205db1a8cc00 // indirect
	github.com/mxk/go-flowrate v0.0.0-20140419014527-cca7078d478f // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/shopspring/decimal v1.4.0 // indirect
	github.com/spf13/cast v1.7.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/wzshiming/easycel v0.6.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/xlab/treeprint v1.2.0 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.7.3 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc v0.68.0 // indirect
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.69.0 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.45.0 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc v1.45.0 // indirect
	go.opentelemetry.io/otel/metric v1.45.0 // indirect
	go.opentelemetry.io/proto/otlp v1.11.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	k8s.io/code-generator v0.37.2 // indirect
	k8s.io/gengo/v2 v2.0.0-20260408192533-25e2208e0dc3 // indirect
	sigs.k8s.io/apiserver-network-proxy/konnectivity-client v0.36.0 // indirect
)
