package cloudsigma

// Environment variables with the identity of CloudSigma's controllers. Operators already use these names.
const (
	EnvImpersonationEnabled = "CLOUDSIGMA_IMPERSONATION_ENABLED"
	EnvOAuthURL             = "CLOUDSIGMA_OAUTH_URL"
	EnvClientID             = "CLOUDSIGMA_CLIENT_ID"
	EnvClientSecret         = "CLOUDSIGMA_CLIENT_SECRET" //nolint:gosec // the name of a variable
	EnvUserEmail            = "CLOUDSIGMA_USER_EMAIL"
	EnvRegion               = "CLOUDSIGMA_REGION"

	// EnvCSITokenEnabled has the controller manager write a token of the user into the tenant cluster, for a CSI driver.
	EnvCSITokenEnabled = "CLOUDSIGMA_ENABLE_CSI_TOKEN" //nolint:gosec // the name of a variable

	// The variables of one fixed account, instead of impersonation.
	EnvLegacyEnabled = "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"
	EnvUsername      = "CLOUDSIGMA_USERNAME"
	EnvPassword      = "CLOUDSIGMA_PASSWORD"
)
