package cloudsigma

// The environment by which CloudSigma's own controllers know as whom they act. Operators have these names already.
const (
	EnvImpersonationEnabled = "CLOUDSIGMA_IMPERSONATION_ENABLED"
	EnvOAuthURL             = "CLOUDSIGMA_OAUTH_URL"
	EnvClientID             = "CLOUDSIGMA_CLIENT_ID"
	EnvClientSecret         = "CLOUDSIGMA_CLIENT_SECRET" //nolint:gosec // the name of a variable
	EnvUserEmail            = "CLOUDSIGMA_USER_EMAIL"
	EnvRegion               = "CLOUDSIGMA_REGION"

	// These are of one fixed account, instead of impersonation.
	EnvLegacyEnabled = "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"
	EnvUsername      = "CLOUDSIGMA_USERNAME"
	EnvPassword      = "CLOUDSIGMA_PASSWORD"
)
