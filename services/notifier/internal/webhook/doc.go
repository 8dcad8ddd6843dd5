// Package webhook gives the webhooks of the send log to their endpoints.
package webhook
