package apiserver

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// The second of upstream's error handlers, which are global, makes whoever reports an error sleep until
// a millisecond after the last one. It remembers that in real time: in a testing/synctest bubble, where
// it is always the year 2000, it would sleep for decades. Only the handler that logs is kept.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }
