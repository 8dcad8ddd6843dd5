package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Prefix is what secrets begin with; the rest is the key in base64.
const Prefix = "whsec_"

// errSecret says that a secret can't sign. It does not tell the secret.
var errSecret = errors.New("the endpoint's secret can't be read")

// sign returns the signatures of a delivery, one for each secret, as Standard Webhooks wants them
// in one header: "v1," and base64 of HMAC-SHA256 over id, Unix seconds and body.
func sign(secrets []string, id string, seconds int64, body []byte) (string, error) {
	if len(secrets) == 0 {
		return "", fmt.Errorf("%w: there is none", errSecret)
	}
	all := make([]string, len(secrets))
	for i, secret := range secrets {
		text, prefixed := strings.CutPrefix(secret, Prefix)
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !prefixed || len(key) == 0 {
			return "", errSecret
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(seconds, 10) + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " "), nil
}
