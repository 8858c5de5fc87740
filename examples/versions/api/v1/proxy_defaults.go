package v1

// The defaults of a Proxy.
const (
	DefaultPort           = 80
	DefaultMaxConnections = 100
	DefaultAttempts       = 2
)

// SetDefaults sets the fields that are not set. The webhook calls it for each write, in whatever
// version that is, and the controller for what was written when there was no webhook.
func (s *ProxySpec) SetDefaults() {
	if s.Port == nil {
		s.Port = new(int32(DefaultPort))
	}
	if s.MaxConnections == nil {
		s.MaxConnections = new(int32(DefaultMaxConnections))
	}
	if s.Balancing == "" {
		s.Balancing = BalancingRoundRobin
	}
	if s.Retries == nil {
		s.Retries = &Retries{Attempts: DefaultAttempts}
	}
}
