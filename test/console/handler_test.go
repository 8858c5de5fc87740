package console

import (
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
)

// handlerOfNames adds a request for the name of each object.
type handlerOfNames = handler.TypedEnqueueRequestForObject[client.Object]
