package authentication

import authenticationv1 "k8s.io/api/authentication/v1"

// Authenticated returns a response that the token is valid and belongs to user.
func Authenticated(reason string, user authenticationv1.UserInfo) Response {
	return ReviewResponse(true, user, reason)
}

// Unauthenticated returns a response that the token is not valid. The user is not sent.
func Unauthenticated(reason string, user authenticationv1.UserInfo) Response {
	return ReviewResponse(false, authenticationv1.UserInfo{}, reason)
}

// Errored returns a response that the token could not be reviewed because of err.
func Errored(err error) Response {
	return ReviewResponse(false, authenticationv1.UserInfo{}, err.Error())
}

// ReviewResponse returns a response with all fields of its status: whether the token is valid, its
// user, an error if not empty, and those audiences of the request that it is valid for.
func ReviewResponse(authenticated bool, user authenticationv1.UserInfo, err string, audiences ...string) Response {
	return Response{authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
		Authenticated: authenticated, User: user, Audiences: audiences, Error: err,
	}}}
}
